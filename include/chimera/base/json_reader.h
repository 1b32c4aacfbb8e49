#pragma once
// Strict reading of a JSON file: every key known, present, of its type and in its range. Errors
// name the file, the key's path, the value and what is accepted.
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "chimera/base/json.h"

namespace chimera {

// What a number may be; a `most` at the type's limit is not mentioned.
struct JsonRange {
  double least, most;
  const char* unit;
};

// One value of a file. It refers to the JSON tree and to the file's name, which outlive it.
class JsonReader {
 public:
  static constexpr Index kNoLimit = std::numeric_limits<Index>::max();

  JsonReader(const Json& value, const std::string& file, std::string path = "")
      : value_(value), file_(file), path_(std::move(path)) {}
  JsonReader(const Json&, std::string&& file, std::string path = "") = delete;

  // Refuses anything but an object with all of `required` and no key outside both lists.
  void only(const std::vector<const char*>& required,
            const std::vector<const char*>& optional = {}) const;
  bool has(const char* key) const;
  JsonReader operator[](const char* key) const;
  bool is_list() const;
  std::vector<JsonReader> list(Index most = kNoLimit) const;
  // Of an object whose keys are free, in the order of the file.
  std::vector<std::pair<std::string, JsonReader>> members() const;

  double number(const JsonRange& range = {0, std::numeric_limits<double>::max(), ""}) const;
  Index count(const JsonRange& range) const;
  Index count(Index least = 0, Index most = kNoLimit, const char* unit = "") const;
  std::string text() const;
  std::string text(std::size_t most) const;  // of 1 to `most` bytes
  bool flag() const;
  // The place of the text among these.
  std::size_t choice(std::initializer_list<const char*> names) const;
  std::string object_text() const;  // an object as it is

  std::string where() const;  // "FILE: PATH", to begin a message
  [[noreturn]] void wrong(const std::string& expected) const;

 private:
  std::string path_of(const std::string& key) const;

  const Json& value_;
  const std::string& file_;
  std::string path_;
};

// A kind of file: {"format": name, "version": version, …}. `made_by` says how to get one; `root` is
// the path of the whole in messages.
struct JsonFormat {
  const char* name;
  Index version;
  const char* made_by;
  const char* root = "";
};
// The root of a file; refuses another format or version.
JsonReader open_format(const Json& json, const std::string& file, const JsonFormat& format);

// Text from a file, fit for a message: at most 80 characters, control characters replaced.
std::string in_quotes(std::string_view text);

}  // namespace chimera
