// chimera bench p2p, allreduce: what messages and reductions cost on this machine.
#include "bench/benchmarks.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "chimera/base/file.h"
#include "chimera/bench/links.h"
#include "chimera/bench/model_parts.h"

namespace chimera::cli {
namespace {

constexpr double kDeadline = 600;

struct Arguments {
  Index ranks = 2, most_bytes = Index{16} << 20;
  std::string save;
};

// As threads, or as the ranks that a launcher started.
void on_ranks(Index ranks, const std::function<void(Communicator&)>& body) {
  const int started = launched_processes();
  if (started == 1) FailUsage("the launcher started 1 process; this takes 2 or more");
  if (started > 1) return run_mpi(kDeadline, 1, body);
  run_local(narrow<int>(ranks), kDeadline, 1, body);
}

void print(const plan::MeasuredLink& link, const char* what, bool reduction) {
  std::printf("%s over %s, %ld ranks: alpha %.3g us, beta %.4g ns per byte (%.2f GB/s)\n\n", what,
              link.transport.c_str(), static_cast<long>(link.ranks), 1e6 * link.alpha,
              1e9 * link.beta, 1e-9 / std::max(link.beta, 1e-18));
  std::printf("| bytes | microseconds | GB/s | of alpha + beta L |\n|---:|---:|---:|---:|\n");
  for (const plan::MeasuredLink::Point& p : link.points) {
    const double fitted = reduction ? plan::allreduce_seconds(link.alpha, link.beta, p.bytes,
                                                              static_cast<double>(link.ranks))
                                    : link.alpha + link.beta * p.bytes;
    std::printf("| %.0f | %.2f | %.3f | %.0f %% |\n", p.bytes, 1e6 * p.seconds,
                1e-9 * p.bytes / p.seconds, 100 * p.seconds / fitted);
  }
  std::fflush(stdout);
}

void run(const Arguments& a, bool reduction) {
  if (!a.save.empty()) check_writable(a.save);
  on_ranks(a.ranks, [&](Communicator& comm) {
    const plan::MeasuredLink link = reduction ? bench::measure_reductions(comm, a.most_bytes)
                                              : bench::measure_messages(comm, a.most_bytes);
    if (comm.rank() != 0) return;
    print(link, reduction ? "reductions" : "messages", reduction);
    if (a.save.empty()) return;
    plan::Calibration fresh = bench::this_machine();
    (reduction ? fresh.allreduce : fresh.p2p) = {link};
    plan::merge_into(a.save, fresh);
  });
}

void add(CLI::App& bench, const char* name, const char* about, bool reduction) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(name, about);
  command->add_option("--ranks", arguments->ranks, "threads; under mpirun its ranks count")
      ->check(CLI::Range(Index{2}, Index{256}))
      ->capture_default_str();
  command->add_option("--most-bytes", arguments->most_bytes, "largest size; from 256 on by fours")
      ->check(CLI::Range(Index{1024}, Index{1} << 30))
      ->capture_default_str();
  command->add_option("--save", arguments->save, "merge into this calibration file");
  command->footer(concat("Examples:\n  chimera bench ", name, " --save calibration.json\n",
                         "  mpirun -n 2 chimera bench ", name, " --save calibration.json"));
  command->callback([arguments, reduction] { run(*arguments, reduction); });
}

}  // namespace

void add_link_benchmarks(CLI::App& bench) {
  add(bench, "p2p", "Messages between two workers: alpha and beta by least squares", false);
  add(bench, "allreduce", "Sums of gradients, against Rabenseifner's cost", true);
}

}  // namespace chimera::cli
