#define XXH_INLINE_ALL  // a call into the library would take longer than a short hash
#include <xxhash.h>

#include "chimera/base/file.h"
#include "chimera/base/hash.h"

namespace chimera {
namespace {
XXH3_state_t* as_state(void* state) { return static_cast<XXH3_state_t*>(state); }
}  // namespace

Checksum::Checksum() : state_(XXH3_createState()) { XXH3_128bits_reset(as_state(state_)); }
Checksum::~Checksum() { XXH3_freeState(as_state(state_)); }
void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(as_state(state_), bytes.data(), bytes.size());
}

std::string Checksum::hex() const {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(as_state(state_)));
  std::string out;
  for (const unsigned char byte : digest.digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

std::string checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.hex();
}

std::uint64_t hash_bytes(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string checksum_of_file(const Path& path) { return checksum_of(MappedFile(path).bytes()); }

}  // namespace chimera
