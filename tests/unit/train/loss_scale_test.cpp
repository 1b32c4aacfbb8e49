#include "chimera/optim/loss_scale.h"

#include "support/support.h"

using namespace chimera;
using optim::LossScale;

TEST_CASE("loss scale: halves at every overflow, doubles after 2000 good steps in a row") {
  LossScale scale = LossScale::dynamic();
  CHECK(scale.value() == 65536);
  scale.skip();
  scale.skip();
  CHECK(scale.value() == 16384);
  CHECK(scale.skipped() == 2);
  for (int i = 0; i < 1999; ++i) scale.good_step();
  CHECK(scale.value() == 16384);
  scale.good_step();
  CHECK(scale.value() == 32768);
  for (int i = 0; i < 1999; ++i) scale.good_step();
  scale.skip();  // the row is broken
  scale.good_step();
  CHECK(scale.value() == 16384);
  CHECK(scale.state().good_steps == 1);
}

TEST_CASE("loss scale: the floor is 1, where no step can be skipped; there is a ceiling") {
  LossScale scale = LossScale::dynamic();
  for (int i = 0; i < 16; ++i) {
    REQUIRE(scale.can_skip());
    scale.skip();
  }
  CHECK(scale.value() == 1);
  CHECK_FALSE(scale.can_skip());
  CHECK_THROWS_AS(scale.skip(), Error);
  for (int i = 0; i < 40 * 2000; ++i) scale.good_step();
  CHECK(scale.value() == LossScale::kMost);
}

TEST_CASE("loss scale: a fixed one stays, and none is 1") {
  LossScale fixed = LossScale::fixed(1024);
  CHECK_FALSE(fixed.can_skip());
  for (int i = 0; i < 5000; ++i) fixed.good_step();
  CHECK(fixed.value() == 1024);
  CHECK(LossScale().value() == 1);
  CHECK_FALSE(LossScale().can_skip());
}

TEST_CASE("loss scale: texts of the configuration") {
  CHECK(LossScale::parse("dynamic")->value() == 65536);
  CHECK(LossScale::parse("dynamic")->can_skip());
  CHECK(LossScale::parse("1024")->value() == 1024);
  CHECK_FALSE(LossScale::parse("1024")->can_skip());
  for (const char* wrong : {"", "0", "0.5", "-2", "nan", "inf", "1e99", "12x", "Dynamic", " 8"})
    CHECK_FALSE(LossScale::parse(wrong).has_value());
}

TEST_CASE("loss scale: goes on from its state") {
  LossScale before = LossScale::dynamic();
  before.skip();
  for (int i = 0; i < 1500; ++i) before.good_step();
  LossScale after = LossScale::dynamic();
  after.restore(before.state());
  for (LossScale* scale : {&before, &after})
    for (int i = 0; i < 500; ++i) scale->good_step();
  CHECK(after.value() == before.value());
  CHECK(after.value() == 65536);
  CHECK(after.skipped() == 1);
  LossScale fixed = LossScale::fixed(8);
  fixed.restore(before.state());
  CHECK(fixed.value() == 8);
  CHECK(fixed.skipped() == 1);  // Adam's count of updates goes on
  CHECK_THROWS_AS(after.restore({0.5, 0, 0}), Error);
  CHECK_THROWS_AS(after.restore({2, -1, 0}), Error);
}
