// What messages and reductions cost on this machine.
#include "chimera/base/file.h"
#include "bench_comm_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "chimera/base/threads.h"
#include "chimera/comm/collectives.h"
#include "chimera/bench/measure_pieces.h"

namespace chimera::cli {
namespace {

constexpr double kDeadline = 600, kSecondsPerSize = 0.3;
constexpr Index kLeastRounds = 9, kMostRounds = 2000;

struct CommArguments {
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

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Median seconds of `body`, which all ranks call equally often.
double median_of(Communicator& comm, const std::function<void()>& body) {
  const double start = now();
  for (int i = 0; i < 3; ++i) body();
  double rounds = std::clamp(kSecondsPerSize / ((now() - start) / 3), double{kLeastRounds},
                             double{kMostRounds});
  broadcast(comm, 1, 0, std::as_writable_bytes(std::span(&rounds, 1)), "the number of rounds");
  std::vector<double> seconds;
  for (Index i = 0; i < static_cast<Index>(rounds); ++i) {
    const double begin = now();
    body();
    seconds.push_back(now() - begin);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

std::vector<Index> sizes_to(Index most) {
  std::vector<Index> sizes;
  for (Index bytes = 256; bytes <= most; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

// One way between ranks 0 and 1: half a round trip.
plan::MeasuredLink measure_p2p(Communicator& comm, Index most_bytes) {
  plan::MeasuredLink link{comm.transport(), comm.size(), 0, 0, {}};
  std::vector<std::byte> memory(static_cast<std::size_t>(most_bytes));
  for (const Index bytes : sizes_to(most_bytes)) {
    const std::span<std::byte> message(memory.data(), static_cast<std::size_t>(bytes));
    const auto there_and_back = [&] {
      if (comm.rank() > 1) return;
      if (comm.rank() == 0) comm.send(1, 0, message, "a message of bench p2p");
      comm.recv(1 - comm.rank(), 0, message, "a message of bench p2p");
      if (comm.rank() == 1) comm.send(0, 0, message, "a message of bench p2p");
    };
    barrier(comm, 2, "bench p2p");
    link.points.push_back({static_cast<double>(bytes), median_of(comm, there_and_back) / 2});
  }
  fit_line(link);
  return link;
}

plan::MeasuredLink measure_allreduce(Communicator& comm, Index most_bytes) {
  plan::MeasuredLink link{comm.transport(), comm.size(), 0, 0, {}};
  std::vector<int> everybody;
  for (int rank = 0; rank < comm.size(); ++rank) everybody.push_back(rank);
  for (const Index bytes : sizes_to(most_bytes)) {
    const auto elements = static_cast<std::size_t>(bytes / 4);
    std::vector<float> mine(elements, 0.0f), scratch;
    OrderedSum sum(comm, 3, everybody, bytes / 4);
    scratch.resize(static_cast<std::size_t>(sum.scratch_elements()));
    float* const contribution = mine.data();
    barrier(comm, 2, "bench allreduce");
    link.points.push_back({static_cast<double>(bytes), median_of(comm, [&] {
                             sum.all_reduce(std::span(&contribution, 1), mine.data(),
                                            scratch.data(), "a sum of bench allreduce");
                           })});
  }
  fit_reduction(link);
  return link;
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

void run(const CommArguments& a, bool reduction) {
  if (!a.save.empty()) check_writable(a.save);
  on_ranks(a.ranks, [&](Communicator& comm) {
    const plan::MeasuredLink link =
        reduction ? measure_allreduce(comm, a.most_bytes) : measure_p2p(comm, a.most_bytes);
    if (comm.rank() != 0) return;
    print(link, reduction ? "reductions" : "messages", reduction);
    if (a.save.empty()) return;
    plan::Calibration fresh = bench::this_machine();
    (reduction ? fresh.allreduce : fresh.p2p) = {link};
    plan::merge_into(a.save, fresh);
  });
}

void add(CLI::App& bench, const char* name, const char* about, bool reduction) {
  auto arguments = std::make_shared<CommArguments>();
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

void add_comm_benchmarks(CLI::App& bench) {
  add(bench, "p2p", "Messages between two workers: alpha and beta by least squares", false);
  add(bench, "allreduce", "Sums of gradients, against Rabenseifner's cost", true);
}

}  // namespace chimera::cli
