#include "tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fields.h"
#include "in_quotes.h"

namespace chimera::checkpoint {
namespace {

DType parse_type(const std::string& text, const std::string& where) {
  for (const DType type : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32})
    if (text == to_string(type)) return type;
  Fail(where, ": unknown element type ", in_quotes(text));
}

std::vector<Index> parse_shape(const Json& list, const std::string& where) {
  ENSURE(list.size() <= static_cast<std::size_t>(Tensor::kMaxRank), where, ": a shape of ",
         list.size(), " dimensions; at most ", Tensor::kMaxRank, " are possible");
  std::vector<Index> shape;
  for (const Json& extent : list) {
    const bool fits =
        extent.is_number_unsigned() && std::in_range<Index>(extent.get<std::uint64_t>());
    ENSURE(fits, where, ": the shape has the extent ", in_quotes(extent.dump()),
           "; expected a whole number from 0 on");
    shape.push_back(extent.get<Index>());
  }
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

std::vector<StoredFile> parse_files(const Json& list, const std::string& where) {
  std::vector<StoredFile> files;
  for (const Json& entry : list) {
    Fields fields(entry, where + ", \"files\"[" + std::to_string(files.size()) + "]");
    StoredFile file;
    file.name = fields.text("name");
    file.bytes = fields.count("bytes");
    file.checksum = fields.checksum("checksum");
    fields.done();
    check_file_name(file.name, where);
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &StoredFile::name);
  return files;
}

std::vector<StoredTensor> parse_tensors(const Json& object, const std::string& where) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : object.items()) {
    const std::string here = where + ", tensor " + in_quotes(name);
    Fields fields(entry, here);
    StoredTensor t;
    t.name = name;
    t.shape = parse_shape(fields.list("shape"), here);
    t.type = parse_type(fields.text("type"), here);
    t.file = fields.text("file");
    t.offset = fields.count("offset");
    t.checksum = fields.checksum("checksum");
    fields.done();
    try {
      t.bytes = byte_count(t);
    } catch (const Error& e) {
      Fail(where, ": ", e.what());
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
