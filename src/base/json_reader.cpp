#include "chimera/base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace chimera {
namespace {

constexpr std::size_t kMostShown = 80;

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMostShown))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text.size() > kMostShown ? out + "…" : out;
}

std::string bounds(const std::string& least, const std::string& most, bool limited,
                   const char* unit) {
  const std::string end = limited ? concat(" to ", most) : " on";
  return concat(" from ", least, end, *unit == '\0' ? "" : " ", unit);
}

}  // namespace

std::string in_quotes(std::string_view text) { return "\"" + printable(text) + "\""; }

std::string JsonReader::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

std::string JsonReader::where() const {
  return file_ + ": " + (path_.empty() ? "the file" : path_);
}

void JsonReader::wrong(const std::string& expected) const {
  const std::string value = value_.dump(-1, ' ', false, Json::error_handler_t::replace);
  Fail(where(), " is ", value.substr(0, kMostShown), "; it must be ", expected);
}

void JsonReader::only(const std::vector<const char*>& required,
                      const std::vector<const char*>& optional) const {
  if (!value_.is_object()) wrong("an object { ... }");
  std::vector<const char*> known(required);
  known.insert(known.end(), optional.begin(), optional.end());
  std::string unknown, accepted;  // a misspelt key is both unknown and missing
  for (const auto& [key, unused] : value_.items()) {
    if (std::ranges::any_of(known, [&](const char* k) { return key == k; })) continue;
    unknown = path_of(printable(key)) + " is not a known key";
    break;
  }
  for (const char* key : required)
    ENSURE(value_.contains(key), file_, ": ", path_of(key), " is missing",
           unknown.empty() ? "" : "; ", unknown);
  for (const char* k : known) accepted += concat(accepted.empty() ? "" : ", ", k);
  ENSURE(unknown.empty(), file_, ": ", unknown, "; known are ", accepted);
}

bool JsonReader::has(const char* key) const { return value_.contains(key); }

JsonReader JsonReader::operator[](const char* key) const {
  if (!value_.is_object()) wrong("an object { ... }");
  const auto found = value_.find(key);
  ENSURE(found != value_.end(), file_, ": ", path_of(key), " is missing");
  return {*found, file_, path_of(key)};
}

bool JsonReader::is_list() const { return value_.is_array(); }

std::vector<JsonReader> JsonReader::list(Index most) const {
  if (!value_.is_array()) wrong("a list");
  if (std::cmp_greater(value_.size(), most)) wrong(concat("a list of at most ", most, " entries"));
  std::vector<JsonReader> out;
  out.reserve(value_.size());
  for (std::size_t i = 0; i < value_.size(); ++i)
    out.emplace_back(value_[i], file_, concat(path_, "[", i, "]"));
  return out;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  if (!value_.is_object()) wrong("an object { ... }");
  std::vector<std::pair<std::string, JsonReader>> out;
  out.reserve(value_.size());
  for (const auto& [key, value] : value_.items())
    out.emplace_back(key, JsonReader(value, file_, path_of(printable(key))));
  return out;
}

double JsonReader::number(const JsonRange& r) const {
  const bool limited = r.most < std::numeric_limits<double>::max();
  const double v = value_.is_number() ? value_.get<double>() : NAN;
  if (!std::isfinite(v) || v < r.least || v > r.most)
    wrong("a number" + bounds(concat(r.least), concat(r.most), limited, r.unit));
  return v;
}

Index JsonReader::count(const JsonRange& r) const {
  return count(static_cast<Index>(r.least), static_cast<Index>(r.most), r.unit);
}

Index JsonReader::count(Index least, Index most, const char* unit) const {
  const bool fits = value_.is_number_unsigned() ? std::in_range<Index>(value_.get<std::uint64_t>())
                                                : value_.is_number_integer();
  if (!fits || value_.get<Index>() < least || value_.get<Index>() > most)
    wrong("a whole number" + bounds(concat(least), concat(most), most < kNoLimit, unit));
  return value_.get<Index>();
}

std::string JsonReader::text() const {
  if (!value_.is_string()) wrong("a text");
  return value_.get<std::string>();
}

std::string JsonReader::text(std::size_t most) const {
  const std::string expected = concat("a text of 1 to ", most, " bytes");
  if (!value_.is_string()) wrong(expected);
  std::string out = value_.get<std::string>();
  if (out.empty() || out.size() > most) wrong(expected);
  return out;
}

bool JsonReader::flag() const {
  if (!value_.is_boolean()) wrong("true or false");
  return value_.get<bool>();
}

std::size_t JsonReader::choice(std::initializer_list<const char*> names) const {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return value_ == name; });
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string expected;
  for (const char* name : names)
    expected += concat(expected.empty() ? "" : " or ", "\"", name, "\"");
  wrong(expected);
}

std::string JsonReader::object_text() const {
  if (!value_.is_object()) wrong("an object { ... }");
  return value_.dump();
}

JsonReader open_format(const Json& json, const std::string& file, const JsonFormat& format) {
  ENSURE(json.is_object() && json.contains("format") && json["format"] == format.name, file,
         " is not a ", format.name, " file: its format is not \"", format.name, "\"; ",
         format.made_by);
  const JsonReader root(json, file, format.root);
  const Index found = root["version"].count();
  ENSURE(found == format.version, root["version"].where(), " is ", found,
         "; this program reads version ", format.version);
  return root;
}

}  // namespace chimera
