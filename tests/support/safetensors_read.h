#pragma once
// A reader of safetensors for tests alone, independent of the product's: reference values as
// double, whatever their stored type.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/support.h"

namespace chimera::test {

struct Reference {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  std::vector<float> f32() const { return {values.begin(), values.end()}; }
  std::vector<std::int32_t> i32() const { return {values.begin(), values.end()}; }
};

inline std::vector<double> widened(const std::string& type, const std::string& bytes) {
  const auto as = [&](auto zero) {
    std::vector<decltype(zero)> raw(bytes.size() / sizeof zero);
    if (!raw.empty()) std::memcpy(raw.data(), bytes.data(), raw.size() * sizeof zero);
    return std::vector<double>(raw.begin(), raw.end());
  };
  if (type == "F64") return as(double{});
  if (type == "F32") return as(float{});
  if (type == "I32") return as(std::int32_t{});
  throw std::runtime_error("a reference has the type " + type);
}

inline std::map<std::string, Reference> read_references(const std::filesystem::path& path) {
  const std::string file = slurp(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  std::map<std::string, Reference> out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    out[name] = {entry["shape"].get<std::vector<std::int64_t>>(),
                 widened(entry["dtype"], file.substr(8 + length + begin, end - begin))};
  }
  return out;
}

}  // namespace chimera::test
