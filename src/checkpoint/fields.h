#pragma once
// Strict reading of one JSON object from a file: every key is asked for once, with its type, and
// what was not asked for is refused. Messages say which file and which key.
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "chimera/base/json.h"
#include "chimera/base/types.h"

namespace chimera::checkpoint {

class Fields {
 public:
  // `where`: file and path of the object, the beginning of every message.
  Fields(const Json& object, std::string where);

  // A whole number of at least `least` and at most `most`.
  Index count(const std::string& key, Index least = 0,
              Index most = std::numeric_limits<Index>::max());
  double number(const std::string& key, double least, double most);
  bool boolean(const std::string& key);
  std::string text(const std::string& key);
  std::string checksum(const std::string& key);  // 32 hexadecimal digits
  const Json& object(const std::string& key);
  const Json& list(const std::string& key);

  // Throws where keys are left over.
  void done() const;

 private:
  const Json& value(const std::string& key);
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

  const Json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace chimera::checkpoint
