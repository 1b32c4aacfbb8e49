#pragma once
// The safetensors format (https://github.com/huggingface/safetensors, README "Format"): 8 bytes of
// header length, a JSON header, then the bytes of the tensors without holes up to the end of the
// file. All little-endian, row-major.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/file.h"
#include "chimera/tensor/tensor.h"

namespace chimera::checkpoint {

// What a tensor is, before it has a place.
struct TensorShape {
  std::string name;
  DType type = DType::F32;
  std::vector<Index> shape;  // extents >= 0; empty: a scalar
};
std::string shape_text(std::span<const Index> shape);  // "(8, 16)"
Index byte_count(const TensorShape& tensor);           // checked

// Throws unless `destination` has the type and shape of the stored tensor.
void check_destination(const TensorShape& stored, const Tensor& destination,
                       const std::string& where);

struct TensorEntry : TensorShape {
  Index offset = 0;  // of its first byte, from the start of the file
  Index bytes = 0;
};

// A file opened for reading. The constructor checks every rule of the format (header at most 100
// MB, JSON of exactly the known form, no duplicate names, sizes = shape x element size in checked
// arithmetic, no holes, no overlap, the last tensor ends with the file), so that a file that opens
// is well formed. Errors name the file, the tensor and the byte.
// The file is mapped: it must not shrink while it is open.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const Path& path);

  const Path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return entries_; }  // by offset
  // Tensors of element types that Chimera has no use for (BOOL, I64, …), as "name (type)".
  const std::vector<std::string>& foreign() const { return foreign_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const TensorEntry* find(std::string_view name) const;              // nullptr where there is none
  const TensorEntry& at(std::string_view name) const;                // throws where there is none
  std::span<const std::byte> bytes(const TensorEntry& entry) const;  // may be unaligned

  // Copies a tensor to host memory; throws unless type and shape are those of `destination`.
  void read(std::string_view name, const Tensor& destination) const;

 private:
  MappedFile file_;
  std::vector<TensorEntry> entries_;
  std::vector<std::size_t> by_name_;  // positions in entries_, sorted by name
  std::vector<std::string> foreign_;
  std::map<std::string, std::string> metadata_;
};

// Writes one file: the list of tensors first, then their bytes in the same order, each at once or
// in pieces. The list must keep every tensor aligned to its elements (wider types first).
class SafetensorsWriter {
 public:
  using Metadata = std::map<std::string, std::string>;
  // {"format": "pt"} is what Hugging Face's loaders ask for.
  SafetensorsWriter(const Path& path, std::vector<TensorShape> tensors,
                    const Metadata& metadata = {{"format", "pt"}});
  ~SafetensorsWriter();

  const std::vector<TensorEntry>& entries() const { return entries_; }

  // The next bytes; they may not cross the end of the tensor they belong to. Returns true when that
  // tensor is complete.
  bool write(std::span<const std::byte> bytes);

  // Throws unless every tensor is complete; flushes to the disk.
  void close();

  // After close(): of the whole file, and of each tensor in order.
  Index file_bytes() const;
  std::string file_checksum() const;
  const std::vector<std::string>& tensor_checksums() const { return tensor_checksums_; }

 private:
  void finish_tensors();

  OutputFile file_;
  std::vector<TensorEntry> entries_;
  std::size_t current_ = 0;  // tensor that takes the next bytes
  Index filled_ = 0;         // bytes it has
  Checksum whole_;
  std::unique_ptr<Checksum> part_;
  std::vector<std::string> tensor_checksums_;
};

}  // namespace chimera::checkpoint
