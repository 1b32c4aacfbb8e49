#include "names.h"

#include <algorithm>
#include <charconv>

#include "chimera/checkpoint/writer.h"

namespace chimera::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-", kInfix = ".tmp.";
constexpr std::size_t kStepDigits = 8;

}  // namespace

std::string step_name(Index step) {
  ENSURE(step >= 0, "a checkpoint's step is ", step, "; it cannot be negative");
  std::string digits = std::to_string(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kPrefix) + digits;
}

std::optional<Index> parse_step_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  Index step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || end != digits.data() + digits.size() || step < 0 ||
      step_name(step) != name)
    return std::nullopt;
  return step;
}

std::string temporary_name(Index step, const std::string& id) {
  return step_name(step) + std::string(kInfix) + id;
}

bool is_temporary_name(std::string_view name) {
  const std::size_t infix = name.find(kInfix);
  return infix != name.npos && parse_step_name(name.substr(0, infix)) &&
         is_run_id(name.substr(infix + kInfix.size()));
}

bool is_run_id(std::string_view id) {
  return !id.empty() && id.size() <= 100 && std::ranges::all_of(id, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::vector<Path> subdirectories(const Path& directory) {
  namespace fs = std::filesystem;
  std::vector<Path> out;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  while (!error && entry != fs::directory_iterator()) {
    std::error_code ignored;
    if (fs::symlink_status(entry->path(), ignored).type() == fs::file_type::directory)
      out.push_back(entry->path());
    entry.increment(error);
  }
  ENSURE(!error, "cannot read the directory of checkpoints ", directory.string(), ": ",
         error.message());
  return out;
}

}  // namespace chimera::checkpoint
