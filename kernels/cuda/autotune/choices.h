#pragma once
// What was timed on a device and won, kept between runs: the same algorithms, and so the same bits,
// from the second run on. One JSON file per device, libraries and driver:
//   {"format": "chimera choices 1", "device": "NVIDIA H200", "capability": "9.0", "library":
//    "cuBLASLt 13.1.0", "driver": 13000, "runtime": 13000, "choices": {KEY: {"choice": TEXT, "ms":
//    0.12}, ...}}
#include <map>
#include <optional>
#include <string>

#include "chimera/base/file.h"

namespace chimera::cuda {

// What a choice depends on beside its key.
struct ChoiceScope {
  std::string device, capability, library;  // "NVIDIA H200", "9.0", "cuBLASLt 13.1.0"
  int driver = 0, runtime = 0;              // as CUDA numbers them
  bool operator==(const ChoiceScope&) const = default;
};

struct Choice {
  std::string value;
  double milliseconds = 0;
  bool operator==(const Choice&) const = default;
};

class Choices {
 public:
  // `folder` empty: choices live as long as this object. Files that cannot be read, are damaged or
  // of another scope, and entries that are no choices, are ignored with one line of warning.
  explicit Choices(const std::string& folder = {}, ChoiceScope scope = {});

  // What this run or an earlier one chose.
  std::optional<Choice> find(const std::string& key);
  // The choice for `key` from now on: `choice`, unless another process has written one meanwhile,
  // which is then taken, so that all of a job agree. A file that cannot be written costs a line of
  // warning, and is not tried again.
  Choice keep(const std::string& key, const Choice& choice);
  // A choice found unusable: find() forgets it, and the next keep() replaces it.
  void reject(const std::string& key);

  // The file, or empty.
  const Path& path() const { return path_; }

 private:
  using Entries = std::map<std::string, Choice>;
  Entries read();
  void write(const Entries& entries);
  void warn(const std::string& text);

  ChoiceScope scope_;
  Path path_;
  Entries entries_;
  std::map<std::string, std::string> rejected_;  // value by key
  bool warned_ = false;
  bool writable_ = true;
};

}  // namespace chimera::cuda
