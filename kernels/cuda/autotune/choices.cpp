#include "choices.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "chimera/base/json.h"
#include "chimera/base/log.h"

namespace chimera::cuda {
namespace {

constexpr const char* kFormat = "chimera choices 1";
constexpr Index kMostBytes = Index{16} << 20;  // what read_json reads, too
constexpr std::size_t kLongest = 1024;         // of a key, of a choice

std::string file_name(const ChoiceScope& scope) {
  std::string name = concat(scope.device, " sm ", scope.capability, " ", scope.library, " driver ",
                            scope.driver, " runtime ", scope.runtime);
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (!plain) c = '-';
  }
  return name + ".json";
}

ChoiceScope scope_of(const Json& file) {
  return {file.at("device").get<std::string>(), file.at("capability").get<std::string>(),
          file.at("library").get<std::string>(), file.at("driver").get<int>(),
          file.at("runtime").get<int>()};
}

std::optional<Choice> choice_of(const std::string& key, const Json& entry) {
  if (key.size() > kLongest || !entry.is_object() || entry.size() != 2) return std::nullopt;
  const auto value = entry.find("choice"), ms = entry.find("ms");
  if (value == entry.end() || ms == entry.end() || !value->is_string() || !ms->is_number())
    return std::nullopt;
  Choice choice{value->get<std::string>(), ms->get<double>()};
  if (choice.value.size() > kLongest || !std::isfinite(choice.milliseconds)) return std::nullopt;
  return choice;
}

// Another process holds the lock for the milliseconds of a read and a write.
std::unique_ptr<DirectoryLock> lock(const Path& file) {
  constexpr int kTries = 200;
  for (int i = 1;; ++i) try {
      return std::make_unique<DirectoryLock>(file.parent_path(), file.filename().string() + ".lock",
                                             "the choices in");
    } catch (const Error&) {
      if (i == kTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

}  // namespace

Choices::Choices(const std::string& folder, ChoiceScope scope) : scope_(std::move(scope)) {
  if (folder.empty()) return;
  path_ = Path(folder) / file_name(scope_);
  entries_ = read();
}

void Choices::warn(const std::string& text) {
  if (!warned_) log_warning(text);
  warned_ = true;
}

Choices::Entries Choices::read() {
  Entries entries;
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return entries;
  std::size_t ignored = 0;
  try {
    const Json file = read_json(path_.string());
    ENSURE(file.at("format") == kFormat, "its format is not \"", kFormat, "\"");
    ENSURE(scope_of(file) == scope_, "it is of another device, library or driver");
    const Json& choices = file.at("choices");
    ENSURE(choices.is_object(), "its choices are no object");
    for (const auto& [key, entry] : choices.items())
      if (const auto choice = choice_of(key, entry))
        entries.emplace(key, *choice);
      else
        ++ignored;
  } catch (const Json::exception&) {
    warn(concat("choices of GPU algorithms: ", path_.string(),
                " is ignored: a field is missing or of another type; the next choice replaces it"));
    return {};
  } catch (const Error& e) {
    warn(concat("choices of GPU algorithms: ", path_.string(), " is ignored: ", e.what(),
                "; the next choice replaces it"));
    return {};
  }
  if (ignored > 0)
    warn(concat("choices of GPU algorithms: ", ignored, " entries of ", path_.string(),
                " are no choices and are ignored"));
  return entries;
}

void Choices::write(const Entries& entries) {
  Json choices = Json::object();
  for (const auto& [key, choice] : entries)
    choices.push_back({key, {{"choice", choice.value}, {"ms", choice.milliseconds}}});
  const Json file{{"format", kFormat},
                  {"device", scope_.device},
                  {"capability", scope_.capability},
                  {"library", scope_.library},
                  {"driver", scope_.driver},
                  {"runtime", scope_.runtime},
                  {"choices", std::move(choices)}};
  const std::string text = file.dump(1) + "\n";
  ENSURE(std::ssize(text) <= kMostBytes, "it would have ", text.size(), " bytes");
  write_file_atomically(path_, text);
}

std::optional<Choice> Choices::find(const std::string& key) {
  const auto usable = [&]() -> std::optional<Choice> {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    const auto rejected = rejected_.find(key);
    if (rejected != rejected_.end() && rejected->second == found->second.value) return std::nullopt;
    return found->second;
  };
  if (const auto choice = usable()) return choice;
  if (path_.empty()) return std::nullopt;
  for (auto& [name, choice] : read()) entries_.emplace(name, choice);
  return usable();
}

Choice Choices::keep(const std::string& key, const Choice& choice) {
  const auto rejected = rejected_.find(key);
  const auto settle = [&](Entries& entries) {
    const auto [found, added] = entries.emplace(key, choice);
    if (!added && rejected != rejected_.end() && rejected->second == found->second.value)
      found->second = choice;
    return found->second;
  };
  if (path_.empty() || !writable_) return settle(entries_);
  try {
    make_directories(path_.parent_path());
    const auto locked = lock(path_);
    Entries entries = read();
    const Choice kept = settle(entries);
    write(entries);
    entries_.insert_or_assign(key, kept);
    return kept;
  } catch (const std::exception& e) {
    writable_ = false;  // each further try could wait for the lock as long as this one
    warn(concat("choices of GPU algorithms are not kept in ", path_.string(), ": ", e.what(),
                "; a run that resumes may choose others, and differ in rounding"));
    return settle(entries_);
  }
}

void Choices::reject(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  rejected_.insert_or_assign(key, found->second.value);
  entries_.erase(found);
}

}  // namespace chimera::cuda
