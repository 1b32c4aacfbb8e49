#include "chimera/base/json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "chimera/base/file.h"

namespace chimera {
namespace {

constexpr int kMaxDepth = 64;
constexpr Index kMaxBytes = Index{16} << 20;

}  // namespace

Json parse_json(std::string_view text, const std::string& name, JsonComments comments) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    ENSURE(depth < kMaxDepth, name, ": nested deeper than ", kMaxDepth, " levels");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = value.get<std::string>();
      ENSURE(keys.back().insert(key).second, name, ": the key \"", key,
             "\" stands twice in one object");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/true,
                       comments == JsonComments::Allow);
  } catch (const Json::exception& e) {
    std::string what = e.what();
    if (const auto bracket = what.find("] "); bracket != std::string::npos)
      what = what.substr(bracket + 2);
    Fail(name, " is not valid JSON: ", what);
  }
}

Json read_json(const std::string& path, JsonComments comments) {
  return parse_json(read_file(path, kMaxBytes), path, comments);
}

}  // namespace chimera
