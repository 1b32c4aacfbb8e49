#pragma once
// Runs the blocks of one kernel, one after the other, the threads of a block as fibers.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/block.h"
#include "emulator/kernel.h"
#include "fiber.h"
#include "order.h"
#include "shared_memory.h"

namespace emulator {

struct KernelLaunch {
  std::shared_ptr<const KernelCall> call;
  const void* kernel = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;

  // Runs every block; `seed` decides the order of blocks and threads. Returns what the kernel did
  // wrong, with block, thread and place; nothing if it ran to its end.
  std::optional<std::string> run(const KernelLaunch& launch, std::uint64_t seed);

  // Called by the kernel's threads, through block.h.
  void barrier(const Place& place);
  int count(bool predicate, const Place& place);
  void warp_operation(WarpKind kind, unsigned mask, void* argument, WarpAction action,
                      const Place& place);
  [[noreturn]] void fail(const char* what, const Place& place);
  int lane() const;
  void* dynamic_shared() const { return dynamic_.data(); }
  std::string where() const;  // "block (1, 0, 0), thread (5, 0, 0)"

 private:
  enum class State : unsigned char { New, Ready, AtBarrier, AtWarp, Returned };
  struct Thread : ThreadView {
    State state = State::New;
    WarpKind kind{};
    unsigned mask = 0;
    unsigned rank = 0;  // place in the order
    Fiber* fiber = nullptr;
    void* argument = nullptr;
    WarpAction action = nullptr;
    Place place;
    unsigned turn = 0;            // of its waits in __syncwarp
    const char* token = nullptr;  // of the last __syncwarp (race.h)
  };
  struct Warp {
    unsigned existing = 0, waiting = 0;  // bits of lanes that have not returned; that wait
  };

  static void fiber_entry();
  void run_block();
  void run_threads();
  void thread_returned(Thread& thread);
  void wait(Thread& me);
  void run_thread(Thread& thread, Fiber& fiber);
  void leave(Fiber& me);
  Thread* first_ready();
  Fiber& idle_fiber();
  void release_barrier();
  bool complete(unsigned warp, unsigned lane);
  const char* token_of(const Thread& thread) const;
  void order_warp(Thread* lanes, unsigned members);
  void say_deadlock();
  void say_wrong_mask(const Thread& thread);
  void say(const std::string& what);
  [[noreturn]] void stop();
  Fiber& add_fiber();
  void prepare_contexts(std::size_t count);
  unsigned number(const Thread& thread) const {
    return static_cast<unsigned>(&thread - threads_.data());
  }
  std::string describe(const Thread& thread) const;

  const KernelLaunch* launch_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> thread_order_, block_order_;
  std::size_t cursor_ = 0;  // no thread of a lower rank can run
  std::size_t arrived_ = 0, alive_ = 0;
  int counting_ = 0, counted_ = 0;
  Thread* current_ = nullptr;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Fiber*> spent_;  // races: a thread is alone on its fiber
  std::vector<void*> contexts_;
  std::vector<char> tokens_;  // 2 for barriers, 2 of each thread, taken in turn
  unsigned phase_ = 0;        // barriers that have been passed
  Fiber* running_ = nullptr;
  DynamicShared dynamic_;
  std::optional<std::string> error_;
};

// The runner of the kernel that runs now, and whether one does.
BlockRunner& runner();
bool kernel_runs();

}  // namespace emulator
