#include "e2e/bad_input.h"

#include <algorithm>
#include <stdexcept>

namespace chimera::test {

BadInputs::BadInputs() {
  const CommandResult r = train("run");
  if (r.exit_code != 0) throw std::runtime_error(r.out + r.err);
  kept_ = checkpoint_files("run");
}

void BadInputs::check(const std::vector<BadInput>& cases) const {
  for (const BadInput& bad : cases) {
    std::string where = "case-" + bad.name;
    std::replace(where.begin(), where.end(), ' ', '-');
    std::filesystem::create_directories(*this / where);
    const CommandResult prepared =
        run_command("set -e\ncd " + (*this / where).string() + "\n" + bad.prepare);
    INFO(bad.name << ": chimera " << bad.arguments);
    REQUIRE(prepared.exit_code == 0);
    const CommandResult r = run(where, bad.arguments);
    INFO(r.out << "\n--- standard error\n" << r.err);
    CHECK(r.exit_code == bad.code);
    for (const std::string& piece : bad.pieces) CHECK_THAT(r.err, Catch::Contains(piece));
    for (const char* crash : {"terminate called", "what():", "Assertion", "Sanitizer",
                              "core dumped", "std::", "json.exception"})
      CHECK_THAT(r.err, !Catch::Contains(crash));
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') < 20);
    CHECK(checkpoint_files("run") == kept_);
  }
}

}  // namespace chimera::test
