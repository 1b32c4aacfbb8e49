#pragma once
// Strict reading of a JSON file of numbers: every key known, present, of its type and in its range.
// Errors name the file, the key's path, the value and what is accepted.
#include <initializer_list>
#include <string>

#include "chimera/base/json.h"

namespace chimera::plan {

struct Range {
  double least, most;
  const char* unit;
};

class Fields {
 public:
  Fields(const Json& value, std::string file, std::string path);

  // Refuses anything but an object with all of `required` and no key outside both lists.
  void only(std::initializer_list<const char*> required,
            std::initializer_list<const char*> optional = {}) const;
  bool has(const char* key) const;
  Fields operator[](const char* key) const;
  std::vector<Fields> list(std::size_t most) const;

  double number(const Range& range) const;
  Index count(const Range& range) const;
  std::string text(std::size_t most = 2000) const;
  bool flag() const;

  [[noreturn]] void wrong(const std::string& expected) const;

 private:
  const Json& value_;
  std::string file_, path_;
};

// Refuses a file that is not `format` of `version`.
void check_format(const Json& root, const std::string& file, const char* format, Index version,
                  const char* made_by);

}  // namespace chimera::plan
