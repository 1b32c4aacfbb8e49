#include "autotune_cache.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "chimera/base/json.h"
#include "chimera/base/log.h"

namespace chimera::cuda {
namespace {

constexpr const char* kFormat = "chimera autotune cache 1";
constexpr Index kMostBytes = Index{16} << 20;  // what read_json reads, too
constexpr std::size_t kLongest = 1024;         // of a key, of a result

std::string file_name(const AutotuneScope& scope) {
  std::string name = concat(scope.device, " sm ", scope.capability, " ", scope.library, " driver ",
                            scope.driver, " runtime ", scope.runtime);
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (!plain) c = '-';
  }
  return name + ".json";
}

AutotuneScope scope_of(const Json& file) {
  return {file.at("device").get<std::string>(), file.at("capability").get<std::string>(),
          file.at("library").get<std::string>(), file.at("driver").get<int>(),
          file.at("runtime").get<int>()};
}

std::optional<AutotuneResult> result_of(const std::string& key, const Json& entry) {
  if (key.size() > kLongest || !entry.is_object() || entry.size() != 2) return std::nullopt;
  const auto value = entry.find("result"), ms = entry.find("ms");
  if (value == entry.end() || ms == entry.end() || !value->is_string() || !ms->is_number())
    return std::nullopt;
  AutotuneResult result{value->get<std::string>(), ms->get<double>()};
  if (result.value.size() > kLongest || !std::isfinite(result.milliseconds)) return std::nullopt;
  return result;
}

// Another process holds the lock for the milliseconds of a read and a write.
std::unique_ptr<DirectoryLock> lock(const Path& file) {
  constexpr int kTries = 200;
  for (int i = 1;; ++i) try {
      return std::make_unique<DirectoryLock>(file.parent_path(), file.filename().string() + ".lock",
                                             "the autotuning cache in");
    } catch (const Error&) {
      if (i == kTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

}  // namespace

AutotuneCache::AutotuneCache(const std::string& folder, AutotuneScope scope)
    : scope_(std::move(scope)) {
  if (folder.empty()) return;
  path_ = Path(folder) / file_name(scope_);
  entries_ = read();
}

void AutotuneCache::warn(const std::string& text) {
  if (!warned_) log_warning(text);
  warned_ = true;
}

AutotuneCache::Entries AutotuneCache::read() {
  Entries entries;
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return entries;
  std::size_t ignored = 0;
  try {
    const Json file = read_json(path_.string());
    ENSURE(file.at("format") == kFormat, "its format is not \"", kFormat, "\"");
    ENSURE(scope_of(file) == scope_, "it is of another device, library or driver");
    const Json& written = file.at("entries");
    ENSURE(written.is_object(), "its entries are no object");
    for (const auto& [key, entry] : written.items())
      if (const auto result = result_of(key, entry))
        entries.emplace(key, *result);
      else
        ++ignored;
  } catch (const Json::exception&) {
    warn(concat("autotuning cache: ", path_.string(),
                " is ignored: a field is missing or of another type; the next result replaces it"));
    return {};
  } catch (const Error& e) {
    warn(concat("autotuning cache: ", path_.string(), " is ignored: ", e.what(),
                "; the next result replaces it"));
    return {};
  }
  if (ignored > 0)
    warn(concat("autotuning cache: ", ignored, " entries of ", path_.string(),
                " are no results and are ignored"));
  return entries;
}

void AutotuneCache::write(const Entries& entries) {
  Json written = Json::object();
  for (const auto& [key, result] : entries)
    written.push_back({key, {{"result", result.value}, {"ms", result.milliseconds}}});
  const Json file{{"format", kFormat},
                  {"device", scope_.device},
                  {"capability", scope_.capability},
                  {"library", scope_.library},
                  {"driver", scope_.driver},
                  {"runtime", scope_.runtime},
                  {"entries", std::move(written)}};
  const std::string text = file.dump(1) + "\n";
  ENSURE(std::ssize(text) <= kMostBytes, "it would have ", text.size(), " bytes");
  write_file_atomically(path_, text);
}

std::optional<AutotuneResult> AutotuneCache::find(const std::string& key) {
  const auto usable = [&]() -> std::optional<AutotuneResult> {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    const auto rejected = rejected_.find(key);
    if (rejected != rejected_.end() && rejected->second == found->second.value) return std::nullopt;
    return found->second;
  };
  if (const auto result = usable()) return result;
  if (path_.empty()) return std::nullopt;
  for (auto& [name, result] : read()) entries_.emplace(name, result);
  return usable();
}

AutotuneResult AutotuneCache::keep(const std::string& key, const AutotuneResult& result) {
  const auto rejected = rejected_.find(key);
  const auto settle = [&](Entries& entries) {
    const auto [found, added] = entries.emplace(key, result);
    if (!added && rejected != rejected_.end() && rejected->second == found->second.value)
      found->second = result;
    return found->second;
  };
  if (path_.empty() || !writable_) return settle(entries_);
  try {
    make_directories(path_.parent_path());
    const auto locked = lock(path_);
    Entries entries = read();
    const AutotuneResult kept = settle(entries);
    write(entries);
    entries_.insert_or_assign(key, kept);
    return kept;
  } catch (const std::exception& e) {
    writable_ = false;  // each further try could wait for the lock as long as this one
    warn(concat("the autotuning cache is not kept in ", path_.string(), ": ", e.what(),
                "; a run that resumes may choose others, and differ in rounding"));
    return settle(entries_);
  }
}

void AutotuneCache::reject(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  rejected_.insert_or_assign(key, found->second.value);
  entries_.erase(found);
}

}  // namespace chimera::cuda
