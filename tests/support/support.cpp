#include "support/support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <sstream>

namespace chimera::test {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "chimera-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot make a temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::permissions(path_, fs::perms::owner_all, fs::perm_options::add, ignored);
  fs::remove_all(path_, ignored);
}

fs::path golden_folder() {
  if (const char* folder = getenv("CHIMERA_GOLDEN")) {
    if (!fs::is_directory(folder))
      throw std::runtime_error(std::string("CHIMERA_GOLDEN is not a folder: ") + folder);
    return folder;
  }
  const fs::path beside = source_folder().parent_path() / "shared" / "golden";
  if (fs::is_directory(beside)) return beside;
  static const bool said = [] {
    std::cerr << "The PyTorch references were not run: set CHIMERA_GOLDEN to their folder. "
                 "Running on the small fixture of tests/golden instead.\n";
    return true;
  }();
  (void)said;
  return source_folder() / "tests" / "golden" / "fixture";
}

std::optional<fs::path> shared_data(const std::string& name) {
  const fs::path path = golden_folder().parent_path() / "data" / name;
  if (fs::exists(path)) return path;
  const fs::path beside = source_folder().parent_path() / "shared" / "data" / name;
  if (fs::exists(beside)) return beside;
  return std::nullopt;
}

fs::path source_folder() { return CHIMERA_SOURCE_DIR; }
fs::path chimera_binary() { return CHIMERA_BINARY; }

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

void spit(const fs::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

int in_child(const std::function<void()>& body) {
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    try {
      body();
      _exit(0);
    } catch (const std::exception& e) {
      std::cerr << "child: " << e.what() << std::endl;
      _exit(99);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CommandResult run_command(const std::string& command, int timeout_seconds) {
  TemporaryFolder folder;
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  // timeout kills the whole process group, so nothing is left running.
  spit(folder / "command", command);
  const std::string line = "timeout --kill-after=5 " + std::to_string(timeout_seconds) + " bash " +
                           (folder / "command").string() + " >" + out + " 2>" + err + " </dev/null";
  const int status = system(line.c_str());
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = slurp(out);
  result.err = slurp(err);
  if (result.exit_code == 124 || result.exit_code == 137)
    throw std::runtime_error("timed out after " + std::to_string(timeout_seconds) +
                             " s: " + command + "\n" + result.out + result.err);
  return result;
}

}  // namespace chimera::test
