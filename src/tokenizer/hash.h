#pragma once
// Hashing of short byte strings and of pairs of ids. Not for files: values depend on byte order.
#include <cstdint>
#include <cstring>
#include <string_view>

namespace chimera::bpe {

// The two halves of the 128-bit product, folded.
inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

template <class T>
std::uint64_t load_bytes(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline std::uint64_t hash_bytes(std::string_view s) {
  constexpr std::uint64_t kA = 0x9E3779B97F4A7C15u, kB = 0xD6E8FEB86659FD93u;
  const char* at = s.data();
  std::size_t n = s.size();
  std::uint64_t h = n * kB;
  for (; n > 16; at += 8, n -= 8) h = fold_multiply(h ^ load_bytes<std::uint64_t>(at), kA) + kB;
  std::uint64_t a = 0, b = 0;
  if (n >= 8) {
    a = load_bytes<std::uint64_t>(at);
    b = load_bytes<std::uint64_t>(at + n - 8);
  } else if (n >= 4) {
    a = load_bytes<std::uint32_t>(at);
    b = load_bytes<std::uint32_t>(at + n - 4);
  } else if (n > 0) {
    a = load_bytes<std::uint8_t>(at) << 16 | load_bytes<std::uint8_t>(at + n / 2) << 8 |
        load_bytes<std::uint8_t>(at + n - 1);
  }
  return fold_multiply(a ^ h ^ kA, b ^ kB);
}

inline std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

inline std::uint64_t hash_pair(std::uint64_t key) {
  return fold_multiply(key ^ 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u);
}

}  // namespace chimera::bpe
