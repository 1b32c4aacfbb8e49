#include "fields.h"

#include <algorithm>

#include "in_quotes.h"

namespace chimera::checkpoint {

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  ENSURE(object.is_object(), where_, " is not a JSON object");
}

const Json& Fields::value(const std::string& key) {
  const auto found = object_.find(key);
  ENSURE(found != object_.end(), where_, ": the key ", in_quotes(key), " is missing");
  asked_.insert(key);
  return *found;
}

void Fields::fail(const std::string& key, const std::string& expected) const {
  const std::string value = object_[key].dump(-1, ' ', false, Json::error_handler_t::replace);
  Fail(where_, ": ", in_quotes(key), " is ", in_quotes(value), "; expected ", expected);
}

Index Fields::count(const std::string& key, Index least, Index most) {
  const Json& v = value(key);
  const bool fits =
      v.is_number_unsigned() ? std::in_range<Index>(v.get<std::uint64_t>()) : v.is_number_integer();
  if (!fits || v.get<Index>() < least || v.get<Index>() > most)
    fail(key, concat("a whole number from ", least, " to ", most));
  return v.get<Index>();
}

double Fields::number(const std::string& key, double least, double most) {
  const Json& v = value(key);
  if (!v.is_number() || !(v.get<double>() >= least && v.get<double>() <= most))
    fail(key, concat("a number from ", least, " to ", most));
  return v.get<double>();
}

bool Fields::boolean(const std::string& key) {
  const Json& v = value(key);
  if (!v.is_boolean()) fail(key, "true or false");
  return v.get<bool>();
}

std::string Fields::text(const std::string& key) {
  const Json& v = value(key);
  if (!v.is_string()) fail(key, "text");
  return v.get<std::string>();
}

std::string Fields::checksum(const std::string& key) {
  std::string hex = text(key);
  const bool good = hex.size() == 32 && hex.find_first_not_of("0123456789abcdef") == hex.npos;
  if (!good) fail(key, "a checksum of 32 hexadecimal digits");
  return hex;
}

const Json& Fields::object(const std::string& key) {
  const Json& v = value(key);
  if (!v.is_object()) fail(key, "an object");
  return v;
}

const Json& Fields::list(const std::string& key) {
  const Json& v = value(key);
  if (!v.is_array()) fail(key, "a list");
  return v;
}

void Fields::done() const {
  for (const auto& [key, value] : object_.items())
    ENSURE(asked_.contains(key), where_, ": unknown key ", in_quotes(key));
}

}  // namespace chimera::checkpoint
