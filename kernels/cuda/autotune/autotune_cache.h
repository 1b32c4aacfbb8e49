#pragma once
// The autotuning cache: what was timed on a device and won, kept between runs, so that from the
// second run on algorithms, and with them bits, are the same. One JSON file per device, libraries
// and driver:
//   {"format": "chimera autotune cache 1", "device": "NVIDIA H200", "capability": "9.0", "library":
//    "cuBLASLt 13.1.0", "driver": 13000, "runtime": 13000, "entries": {KEY: {"result": TEXT, "ms":
//    0.12}, ...}}
#include <map>
#include <optional>
#include <string>

#include "chimera/base/file.h"

namespace chimera::cuda {

// What a result depends on beside its key.
struct AutotuneScope {
  std::string device, capability, library;  // "NVIDIA H200", "9.0", "cuBLASLt 13.1.0"
  int driver = 0, runtime = 0;              // as CUDA numbers them
  bool operator==(const AutotuneScope&) const = default;
};

struct AutotuneResult {
  std::string value;
  double milliseconds = 0;
  bool operator==(const AutotuneResult&) const = default;
};

class AutotuneCache {
 public:
  // `folder` empty: entries live as long as this object. Files that cannot be read, are damaged or
  // of another scope, and entries that are no results, are ignored with one line of warning.
  explicit AutotuneCache(const std::string& folder = {}, AutotuneScope scope = {});

  // What this run or an earlier one chose.
  std::optional<AutotuneResult> find(const std::string& key);
  // The result for `key` from now on: `result`, unless another process has written one meanwhile,
  // which is then taken, so that all of a job agree. A file that cannot be written costs a line of
  // warning, and is not tried again.
  AutotuneResult keep(const std::string& key, const AutotuneResult& result);
  // A result found unusable: find() forgets it, and the next keep() replaces it.
  void reject(const std::string& key);

  // The file, or empty.
  const Path& path() const { return path_; }

 private:
  using Entries = std::map<std::string, AutotuneResult>;
  Entries read();
  void write(const Entries& entries);
  void warn(const std::string& text);

  AutotuneScope scope_;
  Path path_;
  Entries entries_;
  std::map<std::string, std::string> rejected_;  // value by key
  bool warned_ = false;
  bool writable_ = true;
};

}  // namespace chimera::cuda
