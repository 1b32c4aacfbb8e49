#pragma once
// Collectives over point-to-point messages, the same code on every transport: results do not depend
// on it.
#include <vector>

#include "chimera/comm/communicator.h"
#include "chimera/tensor/tensor.h"

namespace chimera {

// A sum of fp32 contributions in a given order, the result on every member. Each member owns one
// chunk: it receives that chunk of every contribution, adds them first to last, and sends the sum
// to all. Moves 2 (r - 1) / r of the length per member, as Rabenseifner's algorithm, in a fixed
// order of addition.
class OrderedSum {
 public:
  // contributors[i]: the rank that brings contribution i, in the order of addition; a rank may
  // bring several. All members construct it with equal arguments. `scratch` is needed by
  // start/wait.
  OrderedSum(Communicator& comm, int channel, std::vector<int> contributors, Index elements);
  Index scratch_elements() const;

  // mine: this rank's contributions in order. The sum is written to `result` (which may be mine[0])
  // by wait().
  void start(std::span<float* const> mine, float* result, float* scratch);
  void wait(std::string_view what);

 private:
  struct Chunk {
    Index first, count;
  };
  Chunk chunk_of(int member) const;
  Communicator& comm_;
  int channel_;
  std::vector<int> contributors_, members_;  // members: distinct ranks, ascending
  Index elements_;
  std::vector<float*> mine_;
  float* result_ = nullptr;
  float* scratch_ = nullptr;
  std::vector<Communicator::Request> sends_, receives_;
};

// values[i] = sum over all ranks in rank order; equal on every rank. For small vectors (tree-free:
// gather and broadcast).
void sum_over_ranks(Communicator& comm, int channel, std::span<double> values,
                    std::string_view what);
// Bytes of rank `root` on every rank.
void broadcast(Communicator& comm, int channel, int root, std::span<std::byte> bytes,
               std::string_view what);
// Every rank's equally long `mine` on every rank, in rank order; all.size() == size * mine.size().
void all_gather(Communicator& comm, int channel, std::span<const std::byte> mine,
                std::span<std::byte> all, std::string_view what);
void barrier(Communicator& comm, int channel, std::string_view what);

}  // namespace chimera
