#pragma once
// Collectives over point-to-point messages, the same code on every transport: results do not depend
// on it.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/comm/communicator.h"

namespace chimera {

// Adds fp32 numbers that lie where an endpoint's messages do, after what its stream was given
// before.
class Adder {
 public:
  virtual ~Adder() = default;
  // result[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ..., i < count. `result` may be
  // one of the sources, the others keep their numbers, but for `spare`: one of them, or null.
  virtual void add(float* result, std::span<const float* const> sources, float* spare,
                   Index count) = 0;
};
// On the host, by the calling thread's team.
std::unique_ptr<Adder> make_host_adder();

// A sum of fp32 contributions in a given order: bitwise the serial sum ((c0 + c1) + c2) + …,
// however the elements are cut, in the memory that the endpoint's messages are of. Each member owns
// one chunk: it receives that chunk of every contribution and adds them first to last (the
// reduce-scatter); then all chunks go to all (the all-gather). Each half moves (r - 1) / r of the
// length per member for r members with one contribution each: together as Rabenseifner's algorithm,
// in a fixed order of addition.
//
// Sums may share a channel, and several may be under way: members must start them in one order and
// wait for them in one order, and likewise gather; how starts and waits interleave may differ
// between members.
class OrderedSum {
 public:
  struct Chunk {
    Index first, count;
  };

  // contributors[i]: the rank that brings contribution i, in the order of addition; a rank may
  // bring several. The members are the distinct ranks, ascending. Member m owns the elements from
  // borders[m] to borders[m + 1]; borders begin with 0, never descend, and end with the number of
  // elements. All members construct it with equal arguments; `comm` must outlive it.
  OrderedSum(Communicator& comm, int channel, std::vector<int> contributors,
             std::vector<Index> borders);
  // In even chunks, the first ones longer by an element where the members do not divide it.
  OrderedSum(Communicator& comm, int channel, std::vector<int> contributors, Index elements);

  const std::vector<int>& members() const { return members_; }
  std::size_t member() const { return me_; }  // members()[member()] is this rank
  Chunk chunk_of(std::size_t member) const;
  Chunk own_chunk() const { return chunk_of(me_); }
  Index elements() const { return borders_.back(); }
  // Floats that a sum needs as scratch: this member's chunk of every other's contributions.
  Index scratch_elements() const { return scratch_elements_; }

  // None of the following allocates.
  //
  // mine: this rank's contributions in order, each of elements() floats; none is changed but by
  // `result`, also of elements(), which may be mine[0] (and no other). mine, result and scratch
  // must stay valid and untouched from start() until a wait has returned, so sums under way need
  // scratch of their own.
  void start(std::span<float* const> mine, float* result, float* scratch);
  // Ends start(): the sum is in `result`.
  void wait(std::string_view what);
  // Ends start() after the first half: own_chunk() of `result` is the sum, the rest is as it was.
  void wait_for_own(std::string_view what);

  // The two halves at once, and each alone. all_gather() takes each member's own chunk of `values`,
  // of elements(), into all others' `values`; also of elements that are not floats, of `width`
  // bytes.
  void all_reduce(std::span<float* const> mine, float* result, float* scratch,
                  std::string_view what);
  void reduce_scatter(std::span<float* const> mine, float* result, float* scratch,
                      std::string_view what);
  void all_gather(float* values, std::string_view what) {
    all_gather(reinterpret_cast<std::byte*>(values), Index{sizeof(float)}, what);
  }
  void all_gather(std::byte* values, Index width, std::string_view what);

 private:
  void wait_for_all(std::string_view what);

  Communicator& comm_;
  std::unique_ptr<Adder> host_adder_;
  Adder& adder_;
  int channel_;
  std::vector<int> contributors_, members_;
  std::size_t me_ = 0;
  std::vector<Index> borders_;
  Index scratch_elements_ = 0;
  std::vector<float*> mine_;
  std::vector<const float*> sources_;  // my chunk of every contribution
  float *result_ = nullptr, *spare_ = nullptr;
  bool started_ = false;
  std::vector<Communicator::Request> requests_;
};

// Borders for OrderedSum: `members` even chunks of `elements`.
std::vector<Index> even_borders(Index elements, Index members);

// The functions below are called by all ranks, in one order per channel. None allocates.

// values[i] = sum over all ranks, equal on every rank; exact where at most one rank's is not zero.
// A binomial tree to rank 0 and back, 2 ceil(log2 size) hops: rank r adds first those of r + 1,
// then of r + 2, r + 4, …, each of which has added up the ranks from there on. For small vectors:
// 512 values per message on the way there.
void sum_over_ranks(Communicator& comm, int channel, std::span<double> values,
                    std::string_view what);
// Bytes of rank `root` on every rank: a binomial tree, ceil(log2 size) hops.
void broadcast(Communicator& comm, int channel, int root, std::span<std::byte> bytes,
               std::string_view what);
// Returns when every rank has called it (dissemination: ceil(log2 size) rounds).
void barrier(Communicator& comm, int channel, std::string_view what);

// The texts of ranks 0 … count - 1, in that order, on rank 0; nothing on the others. Called by
// these ranks alone, outside of steps: it allocates.
std::vector<std::string> gather_texts(Communicator& comm, int channel, int count,
                                      const std::string& mine, std::string_view what);

}  // namespace chimera
