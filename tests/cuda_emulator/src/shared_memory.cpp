#include "shared_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

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

constexpr std::uint64_t kPoison8 = kPoison * 0x0001000100010001u;

// The sanitizer's zones between variables are written too: loops of our own, not memset.
__attribute__((no_sanitize_address)) void fill(std::span<unsigned char> memory) {
  auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
  for (std::size_t i = 0; i < memory.size() / 8; ++i) words[i] = kPoison8;
  for (std::size_t i = memory.size() / 8 * 8; i < memory.size(); ++i)
    memory.data()[i] = static_cast<unsigned char>(i % 2 == 0 ? kPoison & 0xff : kPoison >> 8);
}

unsigned char pattern(std::size_t i) {
  return static_cast<unsigned char>(i % 2 == 0 ? kPoison & 0xff : kPoison >> 8);
}

}  // namespace

void poison(void* memory, std::size_t bytes) {
  auto* p = static_cast<unsigned char*>(memory);
  const bool odd = reinterpret_cast<std::uintptr_t>(memory) % 2 != 0;
  std::size_t i = 0;
  for (; !odd && i + 2 <= bytes; i += 2) std::memcpy(p + i, &kPoison, 2);
  for (; i < bytes; ++i) p[i] = pattern(i + odd);
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
    fill(section);
  }
}

__attribute__((no_sanitize_address)) std::size_t static_shared_written() {
  std::size_t count = 0;
  for (const auto& section : shared_sections())
    for (std::size_t i = 0; i < section.size(); ++i) {
      const auto* word = reinterpret_cast<const std::uint64_t*>(section.data() + i);
      if (i % 8 == 0 && i + 8 <= section.size() && *word == kPoison8)
        i += 7;
      else
        count += section.data()[i] != pattern(i);
    }
  return count;
}

}  // namespace emulator
