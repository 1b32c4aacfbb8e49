#pragma once
// Collectives over point-to-point messages, the same code on every transport: results do not depend
// on it.
#include <span>
#include <string_view>
#include <vector>

#include "chimera/comm/communicator.h"

namespace chimera {

// A sum of fp32 contributions in a given order, the result on every member: bitwise the serial sum
// ((c0 + c1) + c2) + …, however the elements are chunked. Each member owns one chunk: it receives
// that chunk of every contribution, adds them first to last, and sends the sum to all. Moves
// 2 (r - 1) / r of the length per member for r members with one contribution each, as
// Rabenseifner's algorithm, in a fixed order of addition.
//
// Sums may share a channel, and several may be under way: members must start them in one order and
// wait for them in one order; how starts and waits interleave may differ between members.
class OrderedSum {
 public:
  // contributors[i]: the rank that brings contribution i, in the order of addition; a rank may
  // bring several. All members construct it with equal arguments; `comm` must outlive it.
  OrderedSum(Communicator& comm, int channel, std::vector<int> contributors, Index elements);
  // Floats that start/wait need as scratch: this member's chunk of every other's contributions.
  Index scratch_elements() const { return scratch_elements_; }

  // mine: this rank's contributions in order, each of `elements` floats; none is changed but by
  // `result`, which may be mine[0] (and no other). The sum is written to `result` by wait(). mine,
  // result and scratch must stay valid and untouched from start() until wait() has returned, so
  // sums under way need scratch of their own. Neither call allocates.
  void start(std::span<float* const> mine, float* result, float* scratch);
  void wait(std::string_view what);

 private:
  struct Chunk {
    Index first, count;
  };
  Chunk chunk_of(std::size_t member) const;
  void add_up(const Chunk& chunk) const;
  void wait_for_all(std::string_view what);

  Communicator& comm_;
  int channel_;
  std::vector<int> contributors_, members_;  // members: distinct ranks, ascending
  std::size_t me_ = 0;                       // this rank's place among the members
  Index elements_, scratch_elements_ = 0;
  std::vector<float*> mine_;
  std::vector<const float*> sources_;  // my chunk of every contribution
  float* result_ = nullptr;
  bool started_ = false;
  std::vector<Communicator::Request> requests_;
};

// The functions below are called by all ranks, in one order per channel. None allocates.

// values[i] = sum over all ranks in rank order; equal on every rank. For small vectors: rank 0 adds
// them up as they come, in (size - 1) messages per 512 values, then broadcasts.
void sum_over_ranks(Communicator& comm, int channel, std::span<double> values,
                    std::string_view what);
// Bytes of rank `root` on every rank: a binomial tree, ceil(log2 size) hops.
void broadcast(Communicator& comm, int channel, int root, std::span<std::byte> bytes,
               std::string_view what);
// Every rank's equally long `mine` on every rank, in rank order; all.size() == size * mine.size().
// A ring: each rank talks to its two neighbours only.
void all_gather(Communicator& comm, int channel, std::span<const std::byte> mine,
                std::span<std::byte> all, std::string_view what);
// Returns when every rank has called it (dissemination: ceil(log2 size) rounds).
void barrier(Communicator& comm, int channel, std::string_view what);

}  // namespace chimera
