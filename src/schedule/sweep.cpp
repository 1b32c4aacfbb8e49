#include "chimera/schedule/sweep.h"

#include <algorithm>
#include <mutex>

#include "chimera/base/threads.h"
#include "chimera/schedule/build.h"

namespace chimera::schedule {
namespace {

// What `generate` accepts for the name, N = 1: its own refusals say which D and f there are.
std::vector<Request> layouts_of(const std::string& name, int most_depth) {
  std::vector<Request> out;
  for (int D = 1; D <= most_depth; ++D)
    for (int f = 1; f <= std::max(1, D / 2); ++f) {
      const Request request{.schedule = name, .depth = D, .micro_batches = 1, .pipeline_pairs = f};
      try {
        generate(request);
      } catch (const UsageError&) {
        continue;
      }
      out.push_back(request);
    }
  return out;
}

constexpr Index kStride =
    1'000'003;  // prime, so it visits every job unless it divides their number

void count(SweepRow& row, const Schedule& schedule) {
  const VerifyReport report = verify(schedule);
  row.instructions += report.instructions;
  for (const WorkerReport& worker : report.workers) {
    row.messages += worker.messages;
    row.in_flight = std::max(row.in_flight, worker.in_flight);
    row.slots = std::max(row.slots, worker.slots);
  }
}

// Alternates the kinds of training step over N, so that each D and f meets all four.
SweepRow prove(Request request, int N) {
  SweepRow row;
  request.micro_batches = N;
  request.tied = N % 2 == 0;
  request.width = N % 4 < 2 ? 1 : 2;
  try {
    const Schedule training =
        lower(generate(request), {.tied = request.tied, .width = request.width});
    count(row, training);
    const Schedule evaluation =
        lower(generate_evaluation(training.placement, training.depth, N), {.tied = request.tied});
    count(row, evaluation);
  } catch (const Error& error) {
    Fail("schedule ", request.schedule, ", D = ", request.depth, ", N = ", N,
         ", f = ", request.pipeline_pairs, ": ", error.what());
  }
  row.schedules = row.evaluations = 1;
  return row;
}

void merge(SweepRow& into, const SweepRow& row) {
  into.schedules += row.schedules;
  into.evaluations += row.evaluations;
  into.instructions += row.instructions;
  into.messages += row.messages;
  into.in_flight = std::max(into.in_flight, row.in_flight);
  into.slots = std::max(into.slots, row.slots);
}

}  // namespace

std::vector<SweepRow> verify_all(int most_depth, int most_micro_batches) {
  std::vector<SweepRow> rows;
  for (const ScheduleInfo& info : known_schedules()) {
    SweepRow& row = rows.emplace_back();
    row.schedule = info.name;
    const std::vector<Request> layouts = layouts_of(info.name, most_depth);
    int last_depth = 0;
    for (const Request& layout : layouts)
      row.depths += std::exchange(last_depth, layout.depth) != layout.depth;
    const Index L = static_cast<Index>(layouts.size());
    std::mutex mutex;
    parallel_for(L * most_micro_batches, 1, [&](Index begin, Index end) {
      SweepRow mine;
      for (Index i = begin; i < end; ++i) {
        // A stride through all of them: every thread gets small and large ones.
        const Index job = i * kStride % (L * most_micro_batches);
        merge(mine,
              prove(layouts[static_cast<std::size_t>(job % L)], static_cast<int>(job / L) + 1));
      }
      const std::lock_guard lock(mutex);
      merge(row, mine);
    });
  }
  return rows;
}

}  // namespace chimera::schedule
