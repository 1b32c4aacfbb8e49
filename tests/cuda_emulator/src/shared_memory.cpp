#include "shared_memory.h"

#include <cstdint>

#include "asan.h"
#include "emulator/types.h"

// By the linker, at both ends of the section; null in a program without __shared__ variables.
extern "C" {
extern unsigned char __start_emulator_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_emulator_shared[] __attribute__((weak, visibility("hidden")));
}

namespace emulator {
namespace {

// The sanitizer's zones between variables are written too: loops of our own, not memset.
__attribute__((no_sanitize_address)) void fill(unsigned char* memory, std::size_t bytes) {
  volatile unsigned char* p = memory;
  for (std::size_t i = 0; i < bytes; ++i)
    p[i] = static_cast<unsigned char>(i % 2 == 0 ? kPoison & 0xff : kPoison >> 8);
}

std::size_t section_bytes() {
  return static_cast<std::size_t>(__stop_emulator_shared - __start_emulator_shared);
}

unsigned char pattern(std::size_t i) {
  return static_cast<unsigned char>(i % 2 == 0 ? kPoison & 0xff : kPoison >> 8);
}

}  // namespace

void poison(void* memory, std::size_t bytes) {
  auto* p = static_cast<unsigned char*>(memory);
  const bool odd = reinterpret_cast<std::uintptr_t>(memory) % 2 != 0;
  for (std::size_t i = 0; i < bytes; ++i)
    p[i] = static_cast<unsigned char>((i + odd) % 2 == 0 ? kPoison & 0xff : kPoison >> 8);
}

void DynamicShared::prepare(std::size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(memory_.data(), memory_.size());
  memory_.resize(bytes + 2 * kAlignment);
  const auto first = reinterpret_cast<std::uintptr_t>(memory_.data());
  data_ = memory_.data() + (kAlignment - first % kAlignment) % kAlignment;
  bytes_ = bytes;
  poison(data_, bytes + kAlignment);
  ASAN_POISON_MEMORY_REGION(data_ + bytes, kAlignment);
}

__attribute__((no_sanitize_address)) bool DynamicShared::overrun() const {
  for (std::size_t i = bytes_; i < bytes_ + kAlignment; ++i)
    if (data_[i] != pattern(i)) return true;
  return false;
}

void poison_static_shared() {
  if (__start_emulator_shared == nullptr) return;
  fill(__start_emulator_shared, section_bytes());
}

__attribute__((no_sanitize_address)) std::size_t static_shared_written() {
  std::size_t count = 0;
  if (__start_emulator_shared == nullptr) return count;
  for (std::size_t i = 0; i < section_bytes(); ++i)
    count += __start_emulator_shared[i] != pattern(i);
  return count;
}

}  // namespace emulator
