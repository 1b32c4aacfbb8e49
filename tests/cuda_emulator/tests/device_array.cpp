#include "device_array.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

namespace emulator_test {

Death death_of(const std::function<void()>& body, std::uint64_t seed) {
  const chimera::test::TemporaryFolder folder;
  const auto path = folder / "stderr";
  new_machine(0, /*devices=*/0);  // the thread sanitizer watches no child of many threads
  const int code = chimera::test::in_child([&] {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(file, STDERR_FILENO);
    std::signal(SIGSEGV, SIG_DFL);  // not the test framework's
    new_machine(seed, /*devices=*/2);
    body();
  });
  return {code, chimera::test::slurp(path)};
}

}  // namespace emulator_test
