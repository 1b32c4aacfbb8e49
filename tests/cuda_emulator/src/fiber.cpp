#include "fiber.h"

#include <sys/mman.h>

#include <new>

#include "asan.h"
#include "race.h"

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef EMULATOR_UCONTEXT
// Saves what the ABI lets a function keep, and leaves through the other stack.
extern "C" void emulator_switch(void** save, void* load);
asm(R"(.text
.globl emulator_switch
.type emulator_switch,@function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch,.-emulator_switch)");
#endif

namespace emulator {
namespace {

constexpr std::size_t kGuard = 4096;  // below every stack: an overflow is a fault, not a surprise
constexpr std::size_t kColours = 16, kColourBytes = 256;

thread_local Fiber* left = nullptr;  // the fiber that the last switch left

}  // namespace

Fiber::Fiber(void (*entry)(), unsigned number) : entry_(entry) {
  void* memory = mmap(nullptr, kGuard + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, kGuard, PROT_NONE);
  offset_ = number % kColours * kColourBytes;
  bottom_ = memory_ + kGuard;
  size_ = kStackBytes - offset_;
  restart();
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(bottom_, kStackBytes);
  munmap(memory_, kGuard + kStackBytes);
}

void Fiber::restart() {
  ASAN_UNPOISON_MEMORY_REGION(bottom_, kStackBytes);
  fake_stack_ = nullptr;
#ifdef EMULATOR_UCONTEXT
  getcontext(&context_);
  context_.uc_stack.ss_sp = const_cast<void*>(bottom_);
  context_.uc_stack.ss_size = size_;
  context_.uc_link = nullptr;
  makecontext(&context_, entry_, 0);
#else
  // As after a call of entry_: six registers to pop, then its address, then a return address of 0.
  auto** top = reinterpret_cast<void**>(memory_ + kGuard + size_) - 2;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry_);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  stack_pointer_ = top;
#endif
}

void Fiber::switch_to(Fiber& to) {
  left = this;
  race::enter(to.context_of_races_);
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, to.bottom_, to.size_);
#endif
#ifdef EMULATOR_UCONTEXT
  swapcontext(&context_, &to.context_);
#else
  emulator_switch(&stack_pointer_, to.stack_pointer_);
#endif
#ifdef EMULATOR_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
  if (left->memory_ == nullptr) {
    left->bottom_ = bottom;
    left->size_ = size;
  }
#endif
}

void Fiber::arrived() {
#ifdef EMULATOR_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (left->memory_ == nullptr) {
    left->bottom_ = bottom;
    left->size_ = size;
  }
#endif
}

}  // namespace emulator
