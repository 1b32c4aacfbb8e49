#include "shared_memory.h"

#include <algorithm>
#include <cstdint>

#include "asan.h"
#include "emulator/types.h"
#include "race.h"
#include "symbols.h"

namespace emulator {
namespace {

const std::vector<std::span<unsigned char>>& shared_sections() {
  static const auto found = [] {
    auto all = sections(".noinit");  // types.h
    std::ranges::sort(all, {}, [](const auto& section) { return section.data(); });
    if (!all.empty())
      race::announce(all.front().data(),
                     static_cast<std::size_t>(&all.back().back() + 1 - all.front().data()));
    return all;
  }();
  return found;
}

// The sanitizer's zones between variables are written too: loops of our own, not memset.
__attribute__((no_sanitize_address)) void fill(unsigned char* memory, std::size_t bytes) {
  volatile unsigned char* p = memory;
  for (std::size_t i = 0; i < bytes; ++i)
    p[i] = static_cast<unsigned char>(i % 2 == 0 ? kPoison & 0xff : kPoison >> 8);
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
  if (race::kOn) memory_ = std::vector<unsigned char>();  // new memory has no past
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

void renew_static_shared() {
  for (const auto& section : shared_sections()) {
    race::renew(section.data(), section.size());
    fill(section.data(), section.size());
  }
}

__attribute__((no_sanitize_address)) std::size_t static_shared_written() {
  std::size_t count = 0;
  for (const auto& section : shared_sections())
    for (std::size_t i = 0; i < section.size(); ++i) count += section[i] != pattern(i);
  return count;
}

}  // namespace emulator
