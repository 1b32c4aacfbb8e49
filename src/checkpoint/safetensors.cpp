#include "chimera/checkpoint/safetensors.h"

#include <string.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "chimera/base/json_reader.h"
#include "safetensors_header.h"

namespace chimera::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

struct ElementType {
  const char* name;
  Index bytes;
  std::optional<DType> type;  // none: a valid file may hold it, Chimera does not read it
};
constexpr ElementType kElementTypes[] = {
    {"F32", 4, DType::F32}, {"F64", 8, DType::F64}, {"BF16", 2, DType::BF16},
    {"F16", 2, DType::F16}, {"I32", 4, DType::I32}, {"BOOL", 1, {}},
    {"U8", 1, {}},          {"I8", 1, {}},          {"F8_E5M2", 1, {}},
    {"F8_E4M3", 1, {}},     {"F8_E8M0", 1, {}},     {"I16", 2, {}},
    {"U16", 2, {}},         {"U32", 4, {}},         {"I64", 8, {}},
    {"U64", 8, {}},         {"C64", 8, {}},
};

// shape x element size, or nothing where that overflows.
std::optional<Index> size_in_bytes(std::span<const Index> shape, Index element) {
  Index bytes = element;
  for (const Index extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

const ElementType& element_type(const HeaderTensor& t, const std::string& where) {
  const auto found =
      std::ranges::find_if(kElementTypes, [&](const ElementType& e) { return t.type == e.name; });
  ENSURE(found != std::end(kElementTypes), where, ", byte ", t.at, ": tensor ", in_quotes(t.name),
         " has the unknown element type ", in_quotes(t.type));
  return *found;
}

// Tensors are in order of their bytes: each begins where the one before ends, the last ends the
// file.
void check_places(const std::vector<HeaderTensor>& tensors, Index data_bytes,
                  const std::string& where, Index data_start) {
  Index expected = 0;
  for (const HeaderTensor& t : tensors) {
    const auto fail = [&](const auto&... parts) {
      Fail(where, ", byte ", t.at, ": tensor ", in_quotes(t.name), parts...);
    };
    if (t.begin > t.end) fail(" ends at ", t.end, " before it begins at ", t.begin);
    if (t.end > data_bytes)
      fail(" ends ", t.end, " bytes after the header, the file ", data_bytes,
           " bytes after it: cut off");
    if (t.begin < expected)
      fail(" begins at ", t.begin, " and overlaps the one before, which ends at ", expected);
    if (t.begin > expected) fail(" leaves a hole: it begins at ", t.begin, ", not at ", expected);
    const std::optional<Index> bytes = size_in_bytes(t.shape, element_type(t, where).bytes);
    if (!bytes) fail(" of ", t.type, " ", shape_text(t.shape), " overflows 64 bits");
    if (*bytes != t.end - t.begin)
      fail(" of ", t.type, " ", shape_text(t.shape), " needs ", *bytes, " bytes but has ",
           t.end - t.begin);
    expected = t.end;
  }
  ENSURE(expected == data_bytes, where, ", byte ", data_start + expected,
         ": the tensors end here, ", data_bytes - expected, " bytes before the end of the file");
}

std::string_view header_text(const MappedFile& file) {
  const std::string where = file.path().string();
  ENSURE(file.size() >= 8, where, " has ", file.size(),
         " bytes; a safetensors file begins with 8 bytes of header length");
  std::uint64_t length = 0;
  memcpy(&length, file.bytes().data(), sizeof length);
  ENSURE(length <= kMaxHeader, where, ", byte 0: the header length ", length, " exceeds ",
         kMaxHeader, "; this is not a safetensors file");
  ENSURE(static_cast<Index>(length) <= file.size() - 8, where, ", byte 0: the header of ", length,
         " bytes reaches beyond the end of the file (", file.size(), " bytes): cut off");
  return {reinterpret_cast<const char*>(file.bytes().data()) + 8, static_cast<std::size_t>(length)};
}

}  // namespace

std::string shape_text(std::span<const Index> shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + ")";
}

Index byte_count(const TensorShape& tensor) {
  const std::optional<Index> bytes = size_in_bytes(tensor.shape, size_of(tensor.type));
  ENSURE(bytes.has_value(), "tensor ", in_quotes(tensor.name), " of ", shape_text(tensor.shape),
         " has a negative extent or overflows 64 bits");
  return *bytes;
}

SafetensorsFile::SafetensorsFile(const Path& path) : file_(path) {
  const std::string_view text = header_text(file_);
  const Index data_start = 8 + static_cast<Index>(text.size());
  Header header = parse_header(text, path.string());
  std::ranges::sort(header.tensors, {}, [](const HeaderTensor& t) {
    return std::tuple<const Index&, const Index&, const std::string&>(t.begin, t.end, t.name);
  });
  check_places(header.tensors, file_.size() - data_start, path.string(), data_start);
  metadata_ = std::move(header.metadata);
  for (HeaderTensor& t : header.tensors) {
    const ElementType& element = element_type(t, path.string());
    if (!element.type) {
      foreign_.push_back(t.name + " (" + t.type + ")");
      continue;
    }
    TensorEntry entry;
    entry.name = std::move(t.name);
    entry.type = *element.type;
    entry.shape = std::move(t.shape);
    entry.offset = data_start + t.begin;
    entry.bytes = t.end - t.begin;
    entries_.push_back(std::move(entry));
  }
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::sort(by_name_, {},
                    [&](std::size_t i) -> const std::string& { return entries_[i].name; });
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      by_name_, name, {}, [&](std::size_t i) { return std::string_view(entries_[i].name); });
  if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
  return &entries_[*found];
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  const TensorEntry* entry = find(name);
  ENSURE(entry != nullptr, path().string(), " has no readable tensor ", in_quotes(name),
         " among its ", entries_.size() + foreign_.size());
  return *entry;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry& entry) const {
  return file_.bytes().subspan(static_cast<std::size_t>(entry.offset),
                               static_cast<std::size_t>(entry.bytes));
}

void SafetensorsFile::read(std::string_view name, const Tensor& destination) const {
  const TensorEntry& entry = at(name);
  check_destination(entry, destination, path().string());
  if (entry.bytes > 0) memcpy(destination.raw(), bytes(entry).data(), bytes(entry).size());
}

void check_destination(const TensorShape& stored, const Tensor& destination,
                       const std::string& where) {
  bool same = stored.type == destination.type() &&
              static_cast<int>(stored.shape.size()) == destination.rank();
  for (int i = 0; same && i < destination.rank(); ++i)
    same = stored.shape[static_cast<std::size_t>(i)] == destination.dim(i);
  ENSURE(same, where, ": tensor ", in_quotes(stored.name), " is ", to_string(stored.type), " ",
         shape_text(stored.shape), ", but ", to_string(destination.type()), " ",
         destination.shape_text(), " is needed here");
}

}  // namespace chimera::checkpoint
