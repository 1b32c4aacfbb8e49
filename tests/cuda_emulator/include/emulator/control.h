#pragma once
// What tests say to the emulator, beside CUDA's own calls.
#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

// Starting values come from the environment: CHIMERA_EMULATOR_SEED, _DEVICES, _CAPABILITY, _CODE,
// _DRIVER, _MEMORY (bytes), _DEADLINE (seconds).
struct Options {
  // The order of everything that a program may not depend on. Blocks and threads: 0 ascending, 1
  // descending, else shuffled. Streams: 0 nothing runs before a host call needs it, 1 everything
  // runs as soon as it can, 2 the youngest stream first, 3 the oldest, else by random choice, and
  // partly ahead of need.
  std::uint64_t seed = 0;
  int devices = 1;
  int capability = 90;  // 80, 86, 89, 90 or 100
  int code = 80;  // the least capability that this program has code for; launches below are refused
  int driver = 13000;                               // the CUDA that the driver knows; 0: no driver
  std::size_t memory_bytes = std::size_t{4} << 30;  // of each device
  // Whether cuBLASLt has algorithms with GELU or bias gradients in their epilogue.
  bool epilogues = true;
  // Of a wait for another host thread (a collective's other ranks) in which nothing at all moves
  // on.
  double deadline_seconds = 60;
};
Options options();

// A new machine: no streams, memory, errors. What existed before must not be used again. Only while
// no other thread is in a call.
void reset(const Options& options);

// What went wrong last, on any thread: place, values, the way out. Empty: nothing since reset().
std::string last_report();
// Reports since reset().
int report_count();

struct Statistics {
  std::int64_t kernels = 0, copies = 0, live_allocations = 0;
  std::size_t live_bytes = 0;
};
Statistics statistics();

}  // namespace emulator
