// PyTorch's losses by the command line under mpirun.
#include "e2e/runs/golden_run.h"
#include "support/support.h"

namespace chimera::test {

TEST_CASE("ranks: golden: two ranks give PyTorch's losses, 1f1b and chimera") {
  check_golden_run("1f1b", 2, 1, CHIMERA_MPIEXEC_N "2");
  check_golden_run("chimera", 2, 1, CHIMERA_MPIEXEC_N "2");
}

TEST_CASE("ranks: golden: four ranks give PyTorch's losses, gpipe and chimera") {
  check_golden_run("gpipe", 4, 1, CHIMERA_MPIEXEC_N "4");
  check_golden_run("chimera", 4, 1, CHIMERA_MPIEXEC_N "4");
}

TEST_CASE("ranks: golden: two replicas of two ranks give PyTorch's losses, chimera") {
  check_golden_run("chimera", 2, 2, CHIMERA_MPIEXEC_N "4");
}

}  // namespace chimera::test
