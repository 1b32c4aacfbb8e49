// Catch2 itself, compiled once.
#include "support/session.h"

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

namespace chimera::test {

int run_session(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace chimera::test
