#pragma once

namespace chimera::test {

// Runs the test cases that the arguments choose, as Catch2's own main would: the number of
// failures.
int run_session(int argc, char** argv);

}  // namespace chimera::test
