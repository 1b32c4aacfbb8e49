#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "chimera/base/log.h"
#include "chimera/base/threads.h"

int main(int argc, char** argv) {
  chimera::ensure_passive_waiting(argv);
  chimera::set_log_level(chimera::LogLevel::Warning);
  // Catch returns the number of failures; 77 of them would read as "skipped".
  return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}
