#include "chimera/base/json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "chimera/base/file.h"

namespace chimera {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr Index kMaxBytes = Index{16} << 20;

// Builds the value while the text is read. Json::parse would look every new key up among the keys
// before it, one by one: seconds for an object of 100,000.
class Builder {
 public:
  explicit Builder(const std::string& name) : name_(name) {}
  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t& value) { return put(std::move(value)); }

  bool start_object(std::size_t) { return start(Json::object()); }
  bool end_object() { return end(); }
  bool start_array(std::size_t) { return start(Json::array()); }
  bool end_array() { return end(); }
  bool key(std::string& key) {
    ENSURE(open_.back().keys.insert(key).second, name_, ": the key \"", key,
           "\" stands twice in one object");
    open_.back().value->get_ref<Json::object_t&>().emplace_back(std::move(key), nullptr);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& e) {
    std::string what = e.what();
    if (const auto bracket = what.find("] "); bracket != std::string::npos)
      what = what.substr(bracket + 2);
    Fail(name_, " is not valid JSON: ", what);
  }

 private:
  struct Container {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  // Puts a value where the next one belongs and leaves `last_` at it.
  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      last_ = &root_;
    } else if (Json& container = *open_.back().value; container.is_array()) {
      container.get_ref<Json::array_t&>().push_back(std::move(value));
      last_ = &container.back();
    } else {
      last_ = &container.get_ref<Json::object_t&>().back().second;
      *last_ = std::move(value);
    }
    return true;
  }
  bool start(Json container) {
    ENSURE(open_.size() < kMaxDepth, name_, ": nested deeper than ", kMaxDepth, " levels");
    put(std::move(container));
    open_.push_back({last_, {}});
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  Json root_;
  Json* last_ = nullptr;
  std::vector<Container> open_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, JsonComments comments) {
  const auto zero = text.find('\0');  // the parser would take it for the end of the text
  ENSURE(zero == std::string_view::npos, name, " is not valid JSON: a zero byte at position ",
         zero);
  Builder builder(name);
  Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json, /*strict=*/true,
                  comments == JsonComments::Allow);
  return builder.take();
}

Json read_json(const std::string& path, JsonComments comments) {
  return parse_json(read_file(path, kMaxBytes), path, comments);
}

}  // namespace chimera
