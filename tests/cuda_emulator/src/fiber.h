#pragma once
// Fibers: stacks that a thread can switch between. By hand on x86-64 (16 ns a switch), by
// <ucontext.h> elsewhere; the address sanitizer is told of each switch.
#include <cstddef>
#include <memory>

#if !defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
#define EMULATOR_UCONTEXT 1
#endif
#ifdef EMULATOR_UCONTEXT
#include <ucontext.h>
#endif

namespace emulator {

class Fiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{128} << 10;

  // Of the caller's own stack: can be switched from and back to.
  Fiber() = default;
  // With a stack of its own. `number` colours its position, so that stacks do not share cache sets.
  Fiber(void (*entry)(), unsigned number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Forgets what the stack holds: the next switch to it calls entry().
  void restart();
  // Who it is to the thread sanitizer (race.h).
  void set_context(void* context) { context_of_races_ = context; }
  // Saves the caller in *this and continues `to`; returns when somebody switches back.
  void switch_to(Fiber& to);
  // First statement of every entry().
  static void arrived();

 private:
  void (*entry_)() = nullptr;
  char* memory_ = nullptr;  // null: the thread's own stack
  std::size_t offset_ = 0;
  const void* bottom_ = nullptr;  // of the stack, for the sanitizer
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;
  void* context_of_races_ = nullptr;
#ifdef EMULATOR_UCONTEXT
  ucontext_t context_{};
#else
  void* stack_pointer_ = nullptr;
#endif
};

}  // namespace emulator
