#include "chimera/bench/links.h"

#include <algorithm>

#include "chimera/base/stopwatch.h"
#include "chimera/comm/collectives.h"

namespace chimera::bench {
namespace {

constexpr double kSecondsPerSize = 0.3;
constexpr Index kLeastRounds = 9, kMostRounds = 2000;

// Median seconds of `body`, which all ranks call equally often.
double median_of(Communicator& comm, const std::function<void()>& body) {
  const Stopwatch trial;
  for (int i = 0; i < 3; ++i) body();
  double rounds = std::clamp(kSecondsPerSize / (trial.seconds() / 3), double{kLeastRounds},
                             double{kMostRounds});
  broadcast(comm, 1, 0, std::as_writable_bytes(std::span(&rounds, 1)), "the number of rounds");
  std::vector<double> seconds;
  for (Index i = 0; i < static_cast<Index>(rounds); ++i) {
    const Stopwatch watch;
    body();
    seconds.push_back(watch.seconds());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

std::vector<Index> sizes_to(Index most) {
  std::vector<Index> sizes;
  for (Index bytes = 256; bytes <= most; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

}  // namespace

plan::MeasuredLink measure_messages(Communicator& comm, Index most_bytes) {
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

plan::MeasuredLink measure_reductions(Communicator& comm, Index most_bytes) {
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

}  // namespace chimera::bench
