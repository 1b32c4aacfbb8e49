#include "chimera/plan/fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace chimera::plan {

Fields::Fields(const Json& value, std::string file, std::string path)
    : value_(value), file_(std::move(file)), path_(std::move(path)) {}

void Fields::wrong(const std::string& expected) const {
  Fail(file_, ": ", path_.empty() ? "the file" : path_, " is ", value_.dump().substr(0, 80),
       "; it must be ", expected);
}

void Fields::only(std::initializer_list<const char*> required,
                  std::initializer_list<const char*> optional) const {
  if (!value_.is_object()) wrong("an object { ... }");
  const std::string prefix = path_.empty() ? "" : path_ + ".";
  for (const char* key : required)
    ENSURE(value_.contains(key), file_, ": ", prefix, key, " is missing");
  const auto known = [&](const std::string& key) {
    const auto same = [&](const char* k) { return key == k; };
    return std::ranges::any_of(required, same) || std::ranges::any_of(optional, same);
  };
  for (const auto& [key, unused] : value_.items()) {
    std::string accepted;
    if (known(key)) continue;
    for (const char* k : required) accepted += concat(accepted.empty() ? "" : ", ", k);
    for (const char* k : optional) accepted += concat(accepted.empty() ? "" : ", ", k);
    Fail(file_, ": ", prefix, key.substr(0, 80), " is not a known key; known are ", accepted);
  }
}

bool Fields::has(const char* key) const { return value_.contains(key); }

Fields Fields::operator[](const char* key) const {
  const std::string path = path_.empty() ? key : path_ + "." + key;
  ENSURE(value_.is_object() && value_.contains(key), file_, ": ", path, " is missing");
  return {value_.at(key), file_, path};
}

std::vector<Fields> Fields::list(std::size_t most) const {
  if (!value_.is_array() || value_.size() > most)
    wrong(concat("a list of at most ", most, " entries"));
  std::vector<Fields> out;
  for (std::size_t i = 0; i < value_.size(); ++i)
    out.emplace_back(value_[i], file_, concat(path_, "[", i, "]"));
  return out;
}

double Fields::number(const Range& r) const {
  const std::string expected = concat("a number from ", r.least, " to ", r.most, " ", r.unit);
  if (!value_.is_number()) wrong(expected);
  const double v = value_.get<double>();
  if (!std::isfinite(v) || v < r.least || v > r.most) wrong(expected);
  return v;
}

Index Fields::count(const Range& r) const {
  const std::string expected = concat("a whole number from ", r.least, " to ", r.most, " ", r.unit);
  if (!value_.is_number_integer()) wrong(expected);
  const double v = value_.get<double>();
  if (v < r.least || v > r.most) wrong(expected);
  return value_.get<Index>();
}

std::string Fields::text(std::size_t most) const {
  if (!value_.is_string() || value_.get_ref<const std::string&>().empty() ||
      value_.get_ref<const std::string&>().size() > most)
    wrong(concat("a text of 1 to ", most, " bytes"));
  return value_.get<std::string>();
}

bool Fields::flag() const {
  if (!value_.is_boolean()) wrong("true or false");
  return value_.get<bool>();
}

void check_format(const Json& root, const std::string& file, const char* format, Index version,
                  const char* made_by) {
  ENSURE(root.is_object() && root.contains("format") && root["format"] == format, file,
         " is not a ", format, " file: its format is not \"", format, "\"; ", made_by);
  const Fields fields(root, file, "");
  const Index found = fields["version"].count({1, 1e6, "(a version)"});
  ENSURE(found == version, file, ": version is ", found, "; this program reads version ", version);
}

}  // namespace chimera::plan
