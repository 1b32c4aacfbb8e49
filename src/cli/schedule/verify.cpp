// chimera schedule verify
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "chimera/base/file.h"
#include "chimera/base/stopwatch.h"
#include "chimera/base/threads.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "chimera/schedule/sweep.h"
#include "schedule/options.h"

namespace chimera::cli {
namespace {

using namespace schedule;

constexpr Index kLargestSchedule = Index{64} << 20;

void print_proof(const std::string& name, const Schedule& s) {
  const VerifyReport report = verify(s);
  Index messages = 0, reductions = 0;
  for (const WorkerReport& w : report.workers) {
    messages += w.messages;
    reductions += w.reductions;
  }
  std::cout << name << ": proved. " << report.workers.size() << " workers, " << report.instructions
            << " instructions, " << messages << " messages, " << reductions
            << " parts in reductions; every dependency met, no deadlock under blocking rendezvous, "
               "equal order on every link and in every group, gradients added in ascending order, "
               "nothing left live"
            << render_peaks(report) << std::flush;
}

void verify_file(const std::string& file) {
  const Schedule s = from_json(read_file(file, kLargestSchedule), file);
  try {
    verify(s);
  } catch (const Error& error) {
    Fail(file, ": not a schedule that can be run: ", error.what());
  }
  print_proof(file, s);
}

void print_sweep(int depth, int micro_batches) {
  if (depth < 1 || depth > 64 || micro_batches < 1 || micro_batches > 256)
    FailUsage("verify --all to D = ", depth, ", N = ", micro_batches,
              "; choose D from 1 to 64 and N from 1 to 256");
  set_team_size(available_cores());
  const Stopwatch watch;
  const std::vector<SweepRow> rows = verify_all(depth, micro_batches);
  const double seconds = watch.seconds();
  std::printf("every schedule to D = %d, N = %d, in all its variants\n", depth, micro_batches);
  std::printf("%-18s %7s %10s %12s %13s %12s %10s %8s\n", "schedule", "depths", "schedules",
              "evaluations", "instructions", "messages", "in flight", "buffers");
  for (const SweepRow& r : rows)
    std::printf("%-18s %7d %10lld %12lld %13lld %12lld %10d %8d\n", r.schedule.c_str(), r.depths,
                static_cast<long long>(r.schedules), static_cast<long long>(r.evaluations),
                static_cast<long long>(r.instructions), static_cast<long long>(r.messages),
                r.in_flight, r.activation_buffers);
  std::printf(
      "proved for each: dependencies, no deadlock under blocking rendezvous, equal order on links "
      "and in groups,\nascending gradient order, buffers, versions, reductions before step "
      "synchronisation before "
      "updates, nothing left live (%.1f s).\nOverlapping steps: all N that are multiples of D; "
      "tied, "
      "recomputed and other N, which are searched for, to D = 4, N = 5\n",
      seconds);
}

void verify_command(const ScheduleOptions& o) {
  if (!o.file.empty() && o.all) FailUsage("verify takes --file or --all, not both");
  if (!o.file.empty()) return verify_file(o.file);
  if (o.all)
    return print_sweep(o.depth_given ? o.request.depth : 32,
                       o.micro_batches_given ? o.request.micro_batches : 64);
  const Schedule s = build_schedule(o.request);
  print_proof(concat(s.name, ", D = ", s.depth, ", N = ", s.micro_batches), s);
}

}  // namespace

void add_verify_command(CLI::App& command, const SharedOptions& options) {
  CLI::App* sub = command.add_subcommand("verify", "Prove that a schedule can be run as it stands");
  add_request_options(*sub, *options);
  sub->add_flag("--all", options->all, "every schedule to D = 32, N = 64 (or to -D and -N)");
  sub->add_option("--file", options->file, "a schedule as `show --format json` writes it");
  sub->footer(
      "Example:\n  chimera schedule verify --all\n  chimera schedule verify --file mine.json");
  sub->callback([options, sub] {
    complete_request(*sub, *options);
    verify_command(*options);
  });
}

}  // namespace chimera::cli
