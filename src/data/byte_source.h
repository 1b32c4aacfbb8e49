#pragma once
// The bytes of a file, decompressed as its name says (.gz, .zst), streamed.
#include <memory>
#include <span>

#include "chimera/base/file.h"
#include "chimera/base/types.h"

namespace chimera::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out` from its beginning; returns the number of bytes, less than out.size() only at the
  // end. Throws with path and byte on damaged or cut-off compression.
  virtual std::size_t read(std::span<char> out) = 0;
  // Bytes of the file consumed, of file_size(): for progress.
  virtual Index consumed() const = 0;
};

// Throws on a directory, a missing or an unreadable file.
std::unique_ptr<ByteSource> open_bytes(const Path& file);

// The name without .gz or .zst.
Path without_compression(const Path& file);

// The size of a regular file; throws as open_bytes does.
Index size_of_file(const Path& file);

}  // namespace chimera::data
