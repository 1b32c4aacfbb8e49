// Kernel files are compiled once per instruction set. If one emitted a function that others share
// (a weak symbol), the linker could hand AVX-512 code to a baseline machine.
#include <sstream>

#include "support/support.h"

using namespace chimera::test;

TEST_CASE("kernel files share no function between instruction sets") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");  // BUILD/tests/test_kernels
  const auto objects = program.parent_path().parent_path() / "CMakeFiles";
  const auto list = run_command("nm --defined-only $(find '" + objects.string() +
                                "' -path '*chimera_cpu_*' -name '*.o')");
  INFO(list.out << list.err);
  REQUIRE(list.exit_code == 0);
  CHECK(list.out.find("fill_table") != std::string::npos);
  std::string bad;
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);)
    for (const char* kind : {" W ", " V ", " w ", " v ", " u "})
      if (line.find(kind) != std::string::npos) bad += line + "\n";
  CHECK(bad.empty());
}
