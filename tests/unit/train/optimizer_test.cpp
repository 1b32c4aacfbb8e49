#include "chimera/optim/optimizer.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::optim;

TEST_CASE("learning rates at the borders of warm-up and run") {
  const LrScheduleConfig cosine{"cosine", 3, 0.001}, linear{"linear", 3, 0.001},
      constant{"constant", 3, 0.001};
  for (const auto& schedule : {cosine, linear, constant}) {
    CHECK(learning_rate(0, 10, 0.01, schedule) == Approx(0.01 / 3));
    CHECK(learning_rate(2, 10, 0.01, schedule) == Approx(0.01));
    CHECK(learning_rate(3, 10, 0.01, schedule) == Approx(0.01));
  }
  CHECK(learning_rate(10, 10, 0.01, cosine) == 0.001);
  CHECK(learning_rate(1000000, 10, 0.01, linear) == 0.001);
  CHECK(learning_rate(10, 10, 0.01, constant) == 0.01);
  CHECK(learning_rate(6, 9, 0.01, linear) == Approx(0.0055));  // halfway down
  CHECK(learning_rate(6, 9, 0.01, cosine) == Approx(0.0055));
  CHECK(learning_rate(0, 10, 0.01, {"cosine", 0, 0}) == Approx(0.01));
  double last = 1;
  for (Index s = 3; s <= 10; ++s) {
    const double rate = learning_rate(s, 10, 0.01, cosine);
    CHECK(rate <= last);
    CHECK(rate >= 0.001);
    last = rate;
  }
}

TEST_CASE("clipping scales only norms above the bound") {
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(4.0, 1.0) == Approx(0.25).epsilon(1e-5));
  CHECK(clip_factor(1e30, 0) == 1.0);
}
