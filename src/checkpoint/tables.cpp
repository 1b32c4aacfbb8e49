#include "tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace chimera::checkpoint {
namespace {

DType parse_type(const std::string& text, const std::string& where) {
  for (const DType type : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32})
    if (text == to_string(type)) return type;
  Fail(where, ": unknown element type ", in_quotes(text));
}

std::string checksum(const JsonReader& in) {
  std::string hex = in.text();
  const bool good = hex.size() == 32 && hex.find_first_not_of("0123456789abcdef") == hex.npos;
  if (!good) in.wrong("a checksum of 32 hexadecimal digits");
  return hex;
}

std::vector<Index> parse_shape(const JsonReader& in) {
  std::vector<Index> shape;
  for (const JsonReader& extent : in.list(Tensor::kMaxRank)) shape.push_back(extent.count());
  return shape;
}

void check_tensor(const StoredTensor& t, std::span<const StoredFile> files,
                  const std::string& where) {
  const auto file = std::ranges::lower_bound(files, t.file, {}, &StoredFile::name);
  ENSURE(file != files.end() && file->name == t.file, where, ": tensor ", in_quotes(t.name),
         " is in ", in_quotes(t.file), ", which is not in the table of files");
  ENSURE(t.offset <= file->bytes && t.bytes <= file->bytes - t.offset, where, ": tensor ",
         in_quotes(t.name), " (", t.bytes, " bytes from byte ", t.offset, ") reaches beyond ",
         t.file, " of ", file->bytes, " bytes");
}

}  // namespace

Json to_json(const StoredFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}};
}

Json to_json(const StoredTensor& tensor) {
  return {{"shape", tensor.shape},
          {"type", to_string(tensor.type)},
          {"file", tensor.file},
          {"offset", tensor.offset},
          {"checksum", tensor.checksum}};
}

std::vector<StoredFile> parse_files(const JsonReader& in) {
  std::vector<StoredFile> files;
  for (const JsonReader& entry : in.list()) {
    entry.only({"name", "bytes", "checksum"});
    files.push_back({entry["name"].text(), entry["bytes"].count(), checksum(entry["checksum"])});
    check_file_name(files.back().name, entry.where());
  }
  std::ranges::sort(files, {}, &StoredFile::name);
  return files;
}

std::vector<StoredTensor> parse_tensors(const JsonReader& in) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : in.members()) {
    entry.only({"shape", "type", "file", "offset", "checksum"});
    StoredTensor t;
    t.name = name;
    t.shape = parse_shape(entry["shape"]);
    t.type = parse_type(entry["type"].text(), entry.where());
    t.file = entry["file"].text();
    t.offset = entry["offset"].count();
    t.checksum = checksum(entry["checksum"]);
    try {
      t.bytes = byte_count(t);
    } catch (const Error& e) {
      Fail(entry.where(), ": ", e.what());
    }
    tensors.push_back(std::move(t));
  }
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  return tensors;
}

void check_tables(std::span<const StoredFile> files, std::span<const StoredTensor> tensors,
                  const std::string& where) {
  const auto file = std::ranges::adjacent_find(files, {}, &StoredFile::name);
  ENSURE(file == files.end(), where, ": the file ", in_quotes(file->name), " is listed twice");
  const auto tensor = std::ranges::adjacent_find(tensors, {}, &StoredTensor::name);
  ENSURE(tensor == tensors.end(), where, ": tensor ", in_quotes(tensor->name), " is in both ",
         tensor->file, " and ", (tensor + 1)->file, "; one worker alone may write it");
  std::vector<const StoredTensor*> placed;
  for (const StoredTensor& t : tensors) {
    check_tensor(t, files, where);
    placed.push_back(&t);
  }
  std::ranges::sort(placed, {}, [](const StoredTensor* t) {
    return std::tuple<const std::string&, Index, Index>(t->file, t->offset, t->bytes);
  });
  for (std::size_t i = 1; i < placed.size(); ++i) {
    const StoredTensor &before = *placed[i - 1], &t = *placed[i];
    ENSURE(before.file != t.file || before.offset + before.bytes <= t.offset, where, ": tensors ",
           in_quotes(before.name), " and ", in_quotes(t.name), " overlap in ", t.file);
  }
}

}  // namespace chimera::checkpoint
