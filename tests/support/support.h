#pragma once
// What tests share: temporary folders, the reference values, the program under test.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace chimera::test {

// An empty folder, removed at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// $CHIMERA_GOLDEN, else ../shared/golden beside the source tree, else tests/golden (the project's
// own small fixture, with one line that the PyTorch references were not run). A set but missing
// folder is an error.
std::filesystem::path golden_folder();
// A file of the data folder beside golden_folder(), such as gpt2.tiktoken; nothing where there is
// none.
std::optional<std::filesystem::path> shared_data(const std::string& name);

std::filesystem::path source_folder();
std::filesystem::path chimera_binary();

struct CommandResult {
  int exit_code = 0;  // 128 + signal when killed
  std::string out, err;
};
// Runs a shell command with a deadline; a command that outlives it is killed and the test fails.
CommandResult run_command(const std::string& command, int timeout_seconds = 120);

// Runs `body` in a child process and returns its exit code (128 + signal when killed); an exception
// is printed and gives 99. Only from processes without threads.
int in_child(const std::function<void()>& body);

std::string slurp(const std::filesystem::path& path);
void spit(const std::filesystem::path& path, const std::string& content);

}  // namespace chimera::test
