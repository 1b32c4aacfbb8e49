#include "safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include "chimera/base/json_reader.h"

namespace chimera::checkpoint {
namespace {

// Beyond any model, and small enough that a header of 100 MB stays below 512 MB of memory.
constexpr std::size_t kMaxRank = 16, kMaxTensors = 200'000, kMaxMetadata = 10'000;
constexpr Index kHeaderStart = 8;

// Counts the characters that the parser has taken, so that messages can say where.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  Index* taken;
  reference operator*() const { return *at; }
  Cursor& operator++() { return ++at, ++*taken, *this; }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

// Accepts {"NAME": {"dtype": text, "shape": [counts], "data_offsets": [count, count]},
//          "__metadata__": {text: text}} and nothing else.
class HeaderEvents {
 public:
  using Value = nlohmann::json;
  HeaderEvents(const std::string& where, const Index& taken) : where_(where), taken_(taken) {}
  Header take() { return std::move(header_); }

  bool null() { refuse("null"); }
  bool boolean(bool) { refuse("a boolean"); }
  bool number_integer(Value::number_integer_t) { refuse("a negative number"); }
  bool number_float(Value::number_float_t, const std::string& text) {
    refuse("the number " + in_quotes(text) + ", not a whole 64-bit count");
  }
  bool binary(Value::binary_t&) { refuse("binary data"); }

  bool number_unsigned(Value::number_unsigned_t value) {
    if (list_ == nullptr) refuse("a number");
    if (!std::in_range<Index>(value))
      refuse("the number " + std::to_string(value) + ", not a signed 64-bit count");
    if (list_->size() == kMaxRank)
      refuse("a list of more than " + std::to_string(kMaxRank) + " numbers");
    list_->push_back(static_cast<Index>(value));
    return true;
  }

  bool string(std::string& text) {
    if (depth_ == 2 && in_metadata_) {
      if (header_.metadata.size() == kMaxMetadata)
        fail("more than ", kMaxMetadata, " entries of __metadata__");
      if (!header_.metadata.emplace(key_, std::move(text)).second)
        fail("the key ", in_quotes(key_), " stands twice in __metadata__");
    } else if (depth_ == 2 && key_ == "dtype" && list_ == nullptr) {
      type_ = std::move(text);
    } else {
      refuse("the text " + in_quotes(text));
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (list_ != nullptr || depth_ == 2) refuse("an object");
    if (++depth_ == 2 && !in_metadata_) {
      if (header_.tensors.size() == kMaxTensors) fail("more than ", kMaxTensors, " tensors");
      header_.tensors.push_back({.name = key_, .at = position()});
      type_.reset(), shape_.reset(), offsets_.reset();
    }
    return true;
  }

  bool key(std::string& name) {
    key_ = std::move(name);
    if (depth_ == 1) {
      const bool metadata = key_ == "__metadata__";
      if (metadata && std::exchange(seen_metadata_, true)) fail("__metadata__ stands twice");
      in_metadata_ = metadata;
    } else if (!in_metadata_) {
      const bool twice = (key_ == "dtype" && type_) || (key_ == "shape" && shape_) ||
                         (key_ == "data_offsets" && offsets_);
      if (twice) fail(tensor(), ": the key ", in_quotes(key_), " stands twice");
      if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
        fail(tensor(), ": unknown key ", in_quotes(key_),
             "; a tensor has dtype, shape, data_offsets");
    }
    return true;
  }

  bool end_object() {
    if (depth_-- == 2 && !in_metadata_) finish_tensor();
    return true;
  }

  bool start_array(std::size_t) {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || key_ == "dtype") refuse("a list");
    list_ = &(key_ == "shape" ? shape_ : offsets_).emplace();
    return true;
  }
  bool end_array() { return list_ = nullptr, true; }

  bool parse_error(std::size_t, const std::string& token, const Value::exception&) {
    fail("the header is not valid JSON (UTF-8): unexpected ", in_quotes(token));
  }

 private:
  Index position() const { return kHeaderStart + taken_; }
  std::string tensor() const { return "tensor " + in_quotes(header_.tensors.back().name); }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    Fail(where_, ", byte ", position(), ": ", parts...);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    const std::string owner = depth_ < 2     ? "the header"
                              : in_metadata_ ? "__metadata__"
                                             : tensor() + ", " + in_quotes(key_);
    fail(owner, ": unexpected ", what);
  }

  void finish_tensor() {
    HeaderTensor& t = header_.tensors.back();
    const char* missing = !type_      ? "dtype"
                          : !shape_   ? "shape"
                          : !offsets_ ? "data_offsets"
                                      : nullptr;
    if (missing != nullptr) fail(tensor(), " has no ", missing);
    if (offsets_->size() != 2)
      fail(tensor(), ": data_offsets has ", offsets_->size(), " numbers, not 2");
    t.type = std::move(*type_);
    t.shape = std::move(*shape_);
    t.begin = (*offsets_)[0];
    t.end = (*offsets_)[1];
  }

  const std::string& where_;
  const Index& taken_;
  Header header_;
  int depth_ = 0;  // 1: the header's object is open, 2: a tensor's or __metadata__'s
  bool in_metadata_ = false, seen_metadata_ = false;
  std::string key_;
  std::optional<std::string> type_;
  std::optional<std::vector<Index>> shape_, offsets_;
  std::vector<Index>* list_ = nullptr;  // the open list
};

void check_names(const Header& header, const std::string& where) {
  std::vector<std::string_view> names;
  for (const HeaderTensor& t : header.tensors) names.emplace_back(t.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  ENSURE(twice == names.end(), where, ": tensor ", in_quotes(*twice),
         " stands twice in the header");
}

}  // namespace

Header parse_header(std::string_view text, const std::string& where) {
  ENSURE(text.starts_with('{'), where, ", byte ", kHeaderStart,
         ": the header does not begin with {; this is not a safetensors file");
  const auto zero = text.find('\0');  // the JSON parser would take it for the end
  ENSURE(zero == std::string_view::npos, where, ", byte ", kHeaderStart + static_cast<Index>(zero),
         ": a zero byte in the header");
  Index taken = 0;
  HeaderEvents events(where, taken);
  nlohmann::json::sax_parse(Cursor{text.data(), &taken}, Cursor{text.data() + text.size(), &taken},
                            &events);
  Header header = events.take();
  check_names(header, where);
  return header;
}

}  // namespace chimera::checkpoint
