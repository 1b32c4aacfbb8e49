#include "chimera/schedule/sweep.h"

#include <algorithm>
#include <mutex>

#include "chimera/base/threads.h"
#include "chimera/schedule/build.h"

namespace chimera::schedule {
namespace {

constexpr int kMostVirtualStages = 4;
// Up to here overlapping steps are searched for where there is no closed form.
constexpr int kSearchedDepth = 4, kSearchedMicroBatches = 5;

std::vector<SweepVariant> variants_of(const std::string& name) {
  const Request plain{.schedule = name};
  std::vector<SweepVariant> out = {{name, {plain}}};
  if (name != "chimera") return out;
  Request doubled = plain, split = plain;
  doubled.scaling = "doubling";
  split.split_backward = true;
  Request overlapped = split;
  overlapped.overlap_steps = true;
  out.push_back({name + " doubling", {doubled}});
  out.push_back({name + " split", {split}});
  out.push_back({name + " overlap", {overlapped}});
  return out;
}

bool takes_a_search(const Request& r) {
  return r.overlap_steps && (r.tied || r.recompute || r.micro_batches % r.depth != 0) &&
         (r.depth > kSearchedDepth || r.micro_batches > kSearchedMicroBatches);
}

// Tied, W, gradient_sync, zero_stage and recompute: the number `kind` below 48; less sharding,
// tying or recomputation where the schedule cannot be had so.
Request of_kind(Request r, int kind) {
  const auto next = [&](int choices) {
    const int digit = kind % choices;
    kind /= choices;
    return digit;
  };
  constexpr const char* kSyncs[] = {"lazy", "eager", "eager-opt"};
  r.gradient_sync = kSyncs[next(3)];
  r.tied = next(2) == 1;
  r.width = 1 + next(2);
  r.zero_stage = next(2);
  r.recompute = next(2) == 1;
  if (r.scaling == "doubling" && !r.recompute) r.scaling = "halving";  // the same timetable
  if (!refusal(r).empty()) r.zero_stage = 0;
  if (!refusal(r).empty()) r.tied = false;
  if (takes_a_search(r)) r.tied = r.recompute = false;
  return r;
}
constexpr int kKinds = 48;

std::vector<Request> requests_like(Request r, int most_depth, int most_micro_batches) {
  std::vector<Request> out;
  for (r.depth = 1; r.depth <= most_depth; ++r.depth)
    for (r.pipeline_pairs = 1; r.pipeline_pairs <= std::max(1, r.depth / 2); ++r.pipeline_pairs)
      for (r.virtual_stages = 1; r.virtual_stages <= kMostVirtualStages; ++r.virtual_stages) {
        const auto accepted = [&](int N) {
          r.micro_batches = N;
          return refusal(r).empty();
        };
        if (!accepted(1) && !accepted(r.depth)) continue;  // no N helps
        for (int N = 1; N <= most_micro_batches; ++N) {
          if (!accepted(N) || takes_a_search(r)) continue;
          // 7 is prime to 48: a layout meets all kinds; N / 48 shifts the next round.
          const int kind = 7 * N + 13 * r.depth + 5 * r.pipeline_pairs + 3 * r.virtual_stages;
          out.push_back(of_kind(r, (kind + N / kKinds) % kKinds));
        }
      }
  return out;
}

void count(SweepRow& row, const Schedule& schedule) {
  const VerifyReport report = verify(schedule);
  row.instructions += report.instructions;
  for (const WorkerReport& worker : report.workers) {
    row.messages += worker.messages;
    row.in_flight = std::max(row.in_flight, worker.in_flight);
    row.activation_buffers = std::max(row.activation_buffers, worker.activation_buffers);
  }
}

SweepRow prove(const Request& r) {
  SweepRow row;
  try {
    const Schedule training = lower(generate(r), lowering_of(r));
    count(row, training);
    const ComputePlan forwards =
        generate_evaluation(training.placement, training.depth, r.micro_batches);
    count(row, lower(forwards, {.tied = r.tied, .width = r.width}));
  } catch (const Error& error) {
    Fail("schedule ", r.schedule, ", D = ", r.depth, ", N = ", r.micro_batches,
         ", f = ", r.pipeline_pairs, ", v = ", r.virtual_stages, ", W = ", r.width, ", ", r.scaling,
         r.split_backward ? ", split_backward" : "", r.overlap_steps ? ", overlap_steps" : "",
         r.tied ? ", tied" : "", r.recompute ? ", recompute" : "", ", ", r.gradient_sync,
         ", zero_stage ", r.zero_stage, ": ", error.what());
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
  into.activation_buffers = std::max(into.activation_buffers, row.activation_buffers);
}

SweepRow prove(const SweepVariant& variant) {
  SweepRow row;
  row.schedule = variant.name;
  int last_depth = 0;
  for (const Request& r : variant.requests)
    row.depths += std::exchange(last_depth, r.depth) != r.depth;
  // A stride that is prime to their number goes through all: every thread gets small and large
  // ones.
  const Index jobs = static_cast<Index>(variant.requests.size());
  constexpr Index kPrime = 1'000'003;
  ENSURE(jobs < kPrime, "a sweep over ", jobs, " schedules; at most ", kPrime - 1);
  std::mutex mutex;
  parallel_for(jobs, 1, [&](Index begin, Index end) {
    SweepRow mine;
    for (Index i = begin; i < end; ++i)
      merge(mine, prove(variant.requests[static_cast<std::size_t>(i * kPrime % jobs)]));
    const std::lock_guard lock(mutex);
    merge(row, mine);
  });
  return row;
}

}  // namespace

std::vector<SweepVariant> sweep_requests(int most_depth, int most_micro_batches) {
  std::vector<SweepVariant> out;
  for (const ScheduleInfo& info : known_schedules())
    for (SweepVariant& variant : variants_of(info.name)) {
      const Request like = variant.requests.front();
      variant.requests = requests_like(like, most_depth, most_micro_batches);
      if (!variant.requests.empty()) out.push_back(std::move(variant));
    }
  return out;
}

std::vector<SweepRow> verify_all(int most_depth, int most_micro_batches) {
  std::vector<SweepRow> rows;
  for (const SweepVariant& variant : sweep_requests(most_depth, most_micro_batches))
    rows.push_back(prove(variant));
  return rows;
}

}  // namespace chimera::schedule
