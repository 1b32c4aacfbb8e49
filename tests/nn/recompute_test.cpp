// Recomputation changes memory and time, never a bit of the results.
#include <cmath>

#include "stage_bench.h"
#include "support/support.h"

using namespace chimera;
using nn::Recompute;

namespace {

// The samples of a buffer in two passes of unequal size, as doubling has them: one forward for
// both, or each its own; the weight halves after all input halves.
std::vector<float> run(const StageCase& c, bool forward_at_once) {
  StageBench b(c);
  if (forward_at_once) {
    b.forward(0, 3);
  } else {
    b.forward(0, 1);
    b.forward(1, 2);
  }
  b.lose_activations();
  b.set_output_gradient();
  if (c.split) {
    b.backward(0, 1, StageBench::kInput);
    b.backward(1, 2, StageBench::kInput);
    b.backward(0, 1, StageBench::kWeight);
    b.backward(1, 2, StageBench::kWeight);
  } else {
    b.backward(0, 1);
    b.backward(1, 2);
  }
  return b.results();
}

}  // namespace

TEST_CASE("no, selective and full recomputation give the same bits, dropout on, in every type") {
  for (StageCase c : stage_cases())
    for (const auto& [tied, at_once, type] : {std::tuple{true, true, DType::F32},
                                              {true, false, DType::F32},
                                              {false, true, DType::F32},
                                              {false, false, DType::F32},
                                              {true, false, DType::BF16},
                                              {false, true, DType::F16}}) {
      c.type = type;
      c.tied = tied, c.split = false, c.recompute = Recompute::None;
      const std::vector<float> expected = run(c, at_once), in_parts = run(c, false);
      for (const float x : expected) REQUIRE(std::isfinite(x));
      for (const bool split : {false, true})
        for (const Recompute r : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          c.split = split, c.recompute = r;
          INFO("stage " << c.stage << " of " << c.layers.size() << (tied ? " tied" : " untied")
                        << (split ? " split" : " whole") << ", recompute " << static_cast<int>(r));
          // What is made again in parts is what was made in parts: with AVX2, oneDNN gives the rows
          // of a product other bits for another number of rows.
          const bool full = r == Recompute::Full;
          CHECK(bits(run(c, at_once && !full)) == bits(full ? in_parts : expected));
        }
    }
}

// The gradient may be arriving in the output's place while Recompute runs.
TEST_CASE("recompute leaves the edge alone") {
  for (StageCase c : stage_cases()) {
    c.recompute = Recompute::Full;
    StageBench b(c);
    b.forward(0, 3);
    b.lose_activations();
    b.set_output_gradient();
    const nn::BufferView boundary = b.boundary(0, 3);
    const auto copy = [&] {
      std::vector<float> out;
      for (const Tensor& t : {b.stage().input(boundary), b.stage().gradient(boundary)})
        out.insert(out.end(), t.f32(), t.f32() + t.size());
      return out;
    };
    const std::vector<float> before = copy();
    nn::Pass p = b.pass(0, 3);
    b.stage().recompute(p);
    CHECK(bits(copy()) == bits(before));
  }
}
