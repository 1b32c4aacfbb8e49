#pragma once
// Hashing for tables in memory. Not for files: values depend on the byte order and the library.
#include <cstdint>
#include <string_view>

namespace chimera {

std::uint64_t hash_bytes(std::string_view bytes);  // XXH3, 64 bits

}  // namespace chimera
