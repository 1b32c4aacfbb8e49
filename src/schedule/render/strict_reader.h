#pragma once
// Strict reading of this library's files: every key known and of the right type, and errors that
// name the file and the path.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "chimera/base/json.h"

namespace chimera::schedule {

class StrictReader {
 public:
  StrictReader(const Json& value, std::string path) : value_(value), path_(std::move(path)) {}

  void known(std::initializer_list<const char*> keys, const char* of) const {
    ENSURE(value_.is_object(), path_, " is not an object");
    for (const auto& [key, unused] : value_.items())
      ENSURE(std::ranges::find(keys, key) != keys.end(), path_, ".", key, " is not a key of ", of);
  }
  // The same, and none is missing.
  void only(std::initializer_list<const char*> keys, const char* of) const {
    known(keys, of);
    for (const char* key : keys) ENSURE(value_.contains(key), path_, ".", key, " is missing");
  }
  bool has(const char* key) const { return value_.contains(key); }
  StrictReader operator[](const char* key) const { return {value_.at(key), path_ + "." + key}; }
  const std::string& path() const { return path_; }
  bool is_list() const { return value_.is_array(); }

  int number() const {
    ENSURE(value_.is_number_integer() && (!value_.is_number_unsigned() ||
                                          std::in_range<std::int64_t>(value_.get<std::uint64_t>())),
           path_, " is not a whole number: ", value_.dump().substr(0, 80));
    const auto number = value_.get<std::int64_t>();
    ENSURE(std::in_range<int>(number), path_, " is ", number, ", which is out of range");
    return static_cast<int>(number);
  }
  // Finite and not negative.
  double amount() const {
    ENSURE(value_.is_number(), path_, " is not a number: ", value_.dump().substr(0, 80));
    const auto number = value_.get<double>();
    ENSURE(std::isfinite(number) && number >= 0, path_, " is ", number,
           "; it must be finite and not negative");
    return number;
  }
  bool flag() const {
    ENSURE(value_.is_boolean(), path_, " is neither true nor false");
    return value_.get<bool>();
  }
  std::string text() const {
    ENSURE(value_.is_string(), path_, " is not a text");
    return value_.get<std::string>();
  }
  template <class Read>
  auto list(const Read& read) const {
    ENSURE(value_.is_array(), path_, " is not a list");
    std::vector<decltype(read(*this))> out;
    for (std::size_t i = 0; i < value_.size(); ++i)
      out.push_back(read(StrictReader{value_[i], concat(path_, "[", i, "]")}));
    return out;
  }
  std::vector<int> numbers() const {
    return list([](const StrictReader& r) { return r.number(); });
  }

 private:
  const Json& value_;
  std::string path_;
};

// The root of a file of this `format` and `version` at most; `writer` is the command that makes
// one.
inline StrictReader open_format(const Json& json, const std::string& name, const char* what,
                                const char* format, int version, const char* writer) {
  ENSURE(json.is_object() && json.contains("format") && json["format"] == format, name,
         " is not a ", what, " file: its format is not \"", format, "\"; ", writer);
  StrictReader root(json, concat(name, ": ", what));
  ENSURE(root.has("version"), root.path(), ".version is missing");
  ENSURE(root["version"].number() == version, root.path(), ".version is ", root["version"].number(),
         "; this program reads version ", version);
  return root;
}

}  // namespace chimera::schedule
