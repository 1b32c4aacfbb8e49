// A stage on its own: buffers that span several samples, the backward in two halves, its memory.
#include <cmath>

#include "stage_bench.h"
#include "support/support.h"

using namespace chimera;

namespace {

std::vector<StageCase> all_types(const std::vector<StageCase>& cases) {
  std::vector<StageCase> out;
  for (const DType type : {DType::F32, DType::BF16, DType::F16})
    for (const StageCase& c : cases) {
      out.push_back(c);
      out.back().type = type;
    }
  return out;
}
}  // namespace

TEST_CASE("input and weight gradients apart equal the whole backward bitwise, in every type") {
  for (StageCase c : all_types(stage_cases())) {
    StageBench whole(c);
    c.split = true;
    StageBench split(c);
    for (StageBench* b : {&whole, &split}) {
      b->forward(0, StageBench::kSamples);
      b->set_output_gradient();
      b->backward(0, StageBench::kSamples);
    }
    CHECK(bits(whole.results()) == bits(split.results()));
    nn::Pass a = whole.pass(0, StageBench::kSamples), b = split.pass(0, StageBench::kSamples);
    CHECK_THROWS_AS(whole.stage().backward_input(a), Error);
    CHECK_THROWS_AS(whole.stage().backward_weight(a), Error);
    CHECK_THROWS_AS(split.stage().backward(b), Error);
    CHECK_THROWS_AS(split.stage().recompute(b), Error);
  }
}

// What forward doubling and backward halving rely on. Sums over rows change their grouping, so
// equal to rounding.
TEST_CASE("samples in one pass equal one after the other, dropout included") {
  for (const StageCase& c : all_types(stage_cases())) {
    StageBench together(c), apart(c);
    together.forward(0, StageBench::kSamples);
    for (Index s = 0; s < StageBench::kSamples; ++s) apart.forward(s, 1);
    together.set_output_gradient();
    apart.set_output_gradient();
    together.backward(0, StageBench::kSamples);
    for (Index s = 0; s < StageBench::kSamples; ++s) apart.backward(s, 1);
    const std::vector<float> x = together.results(), y = apart.results();
    REQUIRE(x.size() == y.size());
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += std::pow(static_cast<double>(x[i] - y[i]), 2);
      size += std::pow(static_cast<double>(x[i]), 2);
    }
    CHECK(std::sqrt(difference / size) < 1e-6);  // a few fp32 roundings
    CHECK(size > 0);
  }
}

// Gradients of weights and of the stage's input in 16 bits against fp32 on the same (rounded)
// numbers: each of some 30 roundings between adds about a unit, in random directions.
TEST_CASE("a stage in 16 bits is the stage in fp32, to rounding") {
  for (StageCase c : stage_cases())
    for (const DType type : {DType::BF16, DType::F16}) {
      c.type = DType::F32;
      StageBench wide(c);
      c.type = type;
      StageBench narrow(c);
      wide.take_weights_and_input(narrow);
      for (StageBench* b : {&wide, &narrow}) {
        b->forward(0, StageBench::kSamples);
        b->set_output_gradient();
        b->backward(0, StageBench::kSamples);
      }
      const std::vector<float> x = narrow.results(), y = wide.results();
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        difference += std::pow(static_cast<double>(x[i] - y[i]), 2);
        size += std::pow(static_cast<double>(y[i]), 2);
      }
      INFO(to_string(type) << " " << std::sqrt(difference / size) / rounding_unit(type));
      CHECK(std::sqrt(difference / size) < 4 * rounding_unit(type));
      CHECK(difference > 0);  // it did round
    }
}

// The table in src/model/README.md, to the byte: R C floats per multiple; statistics of two norms
// and lse besides. All sizes are multiples of the alignment.
TEST_CASE("memory of a micro-batch on a stage, in multiples of R C") {
  using nn::Recompute;
  const Index samples = 2, T = 16, L = 3, R = samples * T;
  model::ModelConfig m = StageBench::config(true);
  m.n_embd = 16, m.n_positions = T;
  const auto activations = [&](bool split, Recompute recompute) {
    const model::Stage stage(m, {L, 1}, 0, samples, T, split, recompute);
    const Index floats = stage.activation_layout().bytes() / 4 - L * (4 * R + R * m.n_head);
    CHECK(floats % (R * m.n_embd) == 0);
    return floats / (R * m.n_embd);
  };
  CHECK(activations(false, Recompute::None) == 16 * L - 1);
  CHECK(activations(false, Recompute::Selective) == 10 * L - 1);
  CHECK(activations(false, Recompute::Full) == 16 * L - 1);
  CHECK(activations(true, Recompute::None) == 16 * L + 3);
  CHECK(activations(true, Recompute::Selective) == 16 * L + 2);
  CHECK(activations(true, Recompute::Full) == 16 * L + 3);
  for (const Recompute r : {Recompute::None, Recompute::Selective, Recompute::Full})
    for (const bool split : {false, true}) {
      const model::Stage stage(m, {L, 1}, 0, samples, T, split, r);
      CHECK(stage.boundary_layout().bytes() == 4 * (2 * R * m.n_embd + 3 * R));
      CHECK(stage.workspace_layout().bytes() ==
            4 * ((split ? 5 : 6) * R * m.n_embd + R * m.n_head));
    }
}
