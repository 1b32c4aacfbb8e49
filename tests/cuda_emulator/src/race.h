#pragma once
// What the thread sanitizer is told, where it is on. Each stream and each thread of a block is a
// thread to it ("context"); only streams' order, events, host calls and barriers order their
// accesses. So it reports a missing wait or barrier itself, whatever the order of this run. The
// emulator is compiled without the sanitizer; what it does to memory in a program's name it says
// here.
#include <cstddef>

#if defined(EMULATOR_RACES)
#include <sanitizer/tsan_interface.h>
extern "C" {
void __tsan_read_range(void*, unsigned long);
void __tsan_write_range(void*, unsigned long);
void __tsan_java_init(unsigned long, unsigned long);
void __tsan_java_alloc(unsigned long, unsigned long);
void __tsan_java_free(unsigned long, unsigned long);
void AnnotateIgnoreReadsBegin(const char*, int);  // writes too
void AnnotateIgnoreReadsEnd(const char*, int);
}
#endif

namespace emulator::race {

#if defined(EMULATOR_RACES)
constexpr bool kOn = true;
inline void* create() { return __tsan_create_fiber(0); }
inline void destroy(void* context) { __tsan_destroy_fiber(context); }
inline void* current() { return __tsan_get_current_fiber(); }
// The caller goes on as this context; nothing is ordered by that.
inline void enter(void* context) {
  __tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync);
}
// What was done before release(token) in one context comes before what follows acquire(token) in
// another.
inline void release(const void* token) { __tsan_release(const_cast<void*>(token)); }
inline void acquire(const void* token) { __tsan_acquire(const_cast<void*>(token)); }
inline void read(const void* data, std::size_t bytes) {
  if (bytes > 0) __tsan_read_range(const_cast<void*>(data), bytes);
}
inline void write(const void* data, std::size_t bytes) {
  if (bytes > 0) __tsan_write_range(const_cast<void*>(data), bytes);
}
// Once, before renew(): the stretch of the process where it may be used.
inline void announce(const void* first, std::size_t bytes) {
  __tsan_java_init(reinterpret_cast<unsigned long>(first), (bytes + 7) / 8 * 8);
}
// Forgets who has touched this memory, from a multiple of 8 bytes to the next one.
inline void renew(const void* first, std::size_t bytes) {
  bytes = (bytes + 7) / 8 * 8;
  __tsan_java_free(reinterpret_cast<unsigned long>(first), bytes);
  __tsan_java_alloc(reinterpret_cast<unsigned long>(first), bytes);
}
// The emulator's own bookkeeping (memory that one context takes and another gives back).
inline void ignore(bool on) {
  if (on)
    AnnotateIgnoreReadsBegin("", 0);
  else
    AnnotateIgnoreReadsEnd("", 0);
}
#else
constexpr bool kOn = false;
inline void* create() { return nullptr; }
inline void destroy(void*) {}
inline void* current() { return nullptr; }
inline void enter(void*) {}
inline void release(const void*) {}
inline void acquire(const void*) {}
inline void read(const void*, std::size_t) {}
inline void write(const void*, std::size_t) {}
inline void announce(const void*, std::size_t) {}
inline void renew(const void*, std::size_t) {}
inline void ignore(bool) {}
#endif

// Of an operation, which its stream carries out while the sanitizer ignores.
inline void operation_reads(const void* data, std::size_t bytes) {
  ignore(false);
  read(data, bytes);
  ignore(true);
}
inline void operation_writes(const void* data, std::size_t bytes) {
  ignore(false);
  write(data, bytes);
  ignore(true);
}

}  // namespace emulator::race
