#include "chimera/plan/calibration.h"

#include "support/support.h"

namespace chimera::plan {

TEST_CASE("calibration: a line through exact times is found again") {
  MeasuredLink link;
  for (const double bytes : {64.0, 4096.0, 1048576.0})
    link.points.push_back({bytes, 5e-6 + 2e-10 * bytes});
  fit_line(link);
  // Two unknowns, three points on the line: only rounding of the normal equations remains.
  CHECK(link.alpha == Approx(5e-6).epsilon(1e-9));
  CHECK(link.beta == Approx(2e-10).epsilon(1e-9));
}

TEST_CASE("calibration: a line needs two sizes, and costs nothing negative") {
  MeasuredLink link;
  link.points = {{64, 1e-6}, {64, 2e-6}};
  CHECK_THROWS_WITH(fit_line(link), Catch::Contains("two different sizes"));
  link.points = {{100, 2e-6}, {200, 1e-6}};  // falling: the best line with beta >= 0 is level
  fit_line(link);
  CHECK(link.beta == 0);
  CHECK(link.alpha > 1e-6);
  CHECK(link.alpha < 2e-6);
}

TEST_CASE("calibration: Rabenseifner's cost of the paper") {
  // r = 2: 2 alpha + beta L; r = 1: nothing to do.
  CHECK(allreduce_seconds(1e-6, 1e-9, 1e6, 2) == Approx(2e-6 + 1e-3));
  CHECK(allreduce_seconds(1e-6, 1e-9, 1e6, 8) == Approx(6e-6 + 1.75e-3));
  CHECK(allreduce_seconds(1e-6, 1e-9, 1e6, 1) == 0);
}

}  // namespace chimera::plan
