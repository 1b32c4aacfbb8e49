#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "chimera/base/json_reader.h"
#include "chimera/checkpoint/safetensors.h"
#include "safetensors_header.h"

namespace chimera::checkpoint {
namespace {

// Gives each tensor its place relative to the data, and returns the header's text, padded.
std::string make_header(std::vector<TensorEntry>& entries,
                        const SafetensorsWriter::Metadata& metadata, const std::string& where) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  Index place = 0;
  for (TensorEntry& e : entries) {
    ENSURE(!e.name.empty() && e.name != "__metadata__" && !header.contains(e.name), where,
           ": tensor name ", in_quotes(e.name), " is empty, reserved or given twice");
    ENSURE(place % size_of(e.type) == 0, where, ": tensor ", in_quotes(e.name),
           " would begin at an odd place; list wider element types first");
    e.offset = place;
    place = checked_add(place, e.bytes);
    header[e.name] = {
        {"dtype", to_string(e.type)}, {"shape", e.shape}, {"data_offsets", {e.offset, place}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& e) {
    Fail(where, ": a tensor's name is not valid UTF-8: ", e.what());
  }
  text.resize(static_cast<std::size_t>(round_up(static_cast<Index>(text.size()), Index{8})), ' ');
  ENSURE(static_cast<Index>(text.size()) <= kMaxHeader, where, ": the header would have ",
         text.size(), " bytes; at most ", kMaxHeader, " are allowed");
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const Path& path, std::vector<TensorShape> tensors,
                                     const Metadata& metadata)
    : file_(path) {
  for (TensorShape& t : tensors) {
    TensorEntry entry;
    entry.bytes = byte_count(t);
    static_cast<TensorShape&>(entry) = std::move(t);
    entries_.push_back(std::move(entry));
  }
  const std::string header = make_header(entries_, metadata, path.string());
  const std::uint64_t length = header.size();
  for (TensorEntry& e : entries_) e.offset += 8 + static_cast<Index>(length);
  for (const auto bytes :
       {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(header))}) {
    file_.write(bytes);
    whole_.add(bytes);
  }
  part_ = std::make_unique<Checksum>();
  finish_tensors();
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::finish_tensors() {
  while (current_ < entries_.size() && filled_ == entries_[current_].bytes) {
    tensor_checksums_.push_back(part_->hex());
    part_ = std::make_unique<Checksum>();
    filled_ = 0;
    ++current_;
  }
}

bool SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return filled_ == 0;
  ENSURE(current_ < entries_.size(), file_.path().string(), ": ", bytes.size(),
         " bytes more than its tensors have");
  const Index count = static_cast<Index>(bytes.size());
  ENSURE(count <= entries_[current_].bytes - filled_, file_.path().string(), ": tensor ",
         in_quotes(entries_[current_].name), " of ", entries_[current_].bytes, " bytes has ",
         filled_, " and is given ", count, " more");
  file_.write(bytes);
  whole_.add(bytes);
  part_->add(bytes);
  filled_ += count;
  finish_tensors();
  return filled_ == 0;
}

void SafetensorsWriter::close() {
  ENSURE(current_ == entries_.size(), file_.path().string(), ": tensor ",
         in_quotes(entries_[current_].name), " was not written to its end");
  file_.close();
}

Index SafetensorsWriter::file_bytes() const { return file_.size(); }
std::string SafetensorsWriter::file_checksum() const { return whole_.hex(); }

}  // namespace chimera::checkpoint
