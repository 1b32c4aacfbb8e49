#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "chimera/base/log.h"
#include "chimera/base/threads.h"

int main(int argc, char** argv) {
  chimera::ensure_passive_waiting(argv);
  chimera::set_log_level(chimera::LogLevel::Warning);
  return Catch::Session().run(argc, argv);
}
