#include "e2e/runs/signals.h"

#include "support/support.h"

namespace chimera::test {

// All ranks save and end with code 3 when one of them, or what started them, is told to stop.
TEST_CASE("ranks: signals: a job told to stop, by one rank or by the launcher, is continued") {
  check_signals({{"TERM", "2", 3}, {"USR1", "3", 3}, {"TERM", "launcher", 3}},
                CHIMERA_MPIEXEC_N "4");
}

TEST_CASE("ranks: signals: a killed rank ends the job, which continues from its checkpoint") {
  check_signals({{"KILL", "1", -1}}, CHIMERA_MPIEXEC_N "4");
}

}  // namespace chimera::test
