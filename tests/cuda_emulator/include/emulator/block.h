#pragma once
// What the code of a kernel sees of its thread and block, and the operations that wait for other
// threads. Threads of a block are fibers: each runs until it must wait.
#include <source_location>

#include "emulator/types.h"

namespace emulator {

using Place = std::source_location;

struct ThreadView {
  uint3 thread{};
};
struct BlockView {
  uint3 block{};
  dim3 threads, grid;
};
// Of the thread that runs now; meaningful inside kernels only.
extern constinit ThreadView* current_thread;
extern constinit BlockView current_block;
void* dynamic_shared();

// Waits for all threads of the block that have not returned. All must wait at the same place.
void block_barrier(const Place& place);
// The same, and every thread gets the number of threads whose predicate is true.
int block_count(bool predicate, const Place& place);

// One lane's part in an operation of its warp: the last lane of `mask` to come calls
// action(lanes, members): lanes[i] is the argument of lane i, for the bits i of members.
using WarpAction = void (*)(void* const* lanes, unsigned members);
enum class WarpKind { Barrier, Shuffle, Vote, Matrix };
void warp_operation(WarpKind kind, unsigned mask, void* argument, WarpAction action,
                    const Place& place);
int lane_id();

// Ends the kernel with an error for what its code did; `what` is a sentence without its subject.
[[noreturn]] void kernel_error(const char* what, const Place& place);

}  // namespace emulator
