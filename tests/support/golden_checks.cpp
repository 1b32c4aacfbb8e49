#include "support/golden_checks.h"

#include <cmath>

#include "chimera/tensor/half.h"
#include "support/support.h"

namespace chimera::test {

void blank_key_bias(const std::string& name, std::vector<float>& values,
                    std::vector<double>& expected) {
  if (!name.ends_with("attn.c_attn.bias")) return;
  const std::size_t C = expected.size() / 3;
  for (std::size_t i = C; i < 2 * C; ++i) values[i] = 0, expected[i] = 0;
}

void check_gradients(const GoldenModel& model, const Outcome& outcome, const std::string& prefix) {
  for (auto [name, values] : outcome.first_gradients) {
    std::vector<double> expected = model.tensor("step", prefix + "grad." + name);
    blank_key_bias(name, values, expected);
    INFO(model.name() << " " << name);
    // fp32 gradients of a few layers: facts of the field put them at 1e-5; 1e-4 is the bound asked
    // of a layout.
    CHECK(relative_error(values, expected) < 2e-5);
  }
}

void check_curve(const GoldenModel& model, const std::string& run, const Outcome& outcome) {
  const auto curve = model.curve(run);
  REQUIRE(outcome.steps.size() == curve.size());
  for (std::size_t i = 0; i < curve.size(); ++i) {
    INFO(model.name() << " " << run << " step " << i);
    // An independent fp32 implementation stays within 2e-6 of the float64 losses; 1e-5 leaves room
    // for the order of sums.
    CHECK(std::abs(outcome.steps[i].loss - curve[i].loss) < 1e-5);
    CHECK(std::abs(outcome.steps[i].grad_norm - curve[i].grad_norm) < 1e-4 * curve[i].grad_norm);
    CHECK(std::abs(outcome.steps[i].learning_rate - curve[i].learning_rate) < 1e-12);
  }
  for (auto [name, values] : outcome.weights) {
    std::vector<double> expected = model.tensor("after_" + run, name);
    blank_key_bias(name, values, expected);
    INFO(model.name() << " " << run << " " << name);
    // Reached by an independent fp32 implementation: 1.6e-5 over all parameters; small biases alone
    // are worse.
    CHECK(relative_error(values, expected) < (expected.size() > 200 ? 5e-5 : 5e-4));
  }
}

namespace {

// Place of a parameter: 0 the embeddings, i + 1 block i, L + 1 what follows the blocks.
double depth_of(const std::string& name, Index layers) {
  const auto at = name.find(".h.");
  if (at != std::string::npos) return std::stod(name.substr(at + 3)) + 1;
  const bool embedding =
      name.find("wte") != std::string::npos || name.find("wpe") != std::string::npos;
  return embedding ? 0 : static_cast<double>(layers + 1);
}

// Rounding of activations and their gradients adds up from the loss down: relative Frobenius norm
// at most k C^(L + 1 - l) eps at depth l, with k = 4, C = 1.03 and the distance from 1 to the next
// number as eps (arXiv 2506.09280, theorem 5.3, and its constants in use).
double bound(double depth, Index layers, DType type) {
  return 4 * std::pow(1.03, static_cast<double>(layers + 1) - depth) * 2 * rounding_unit(type);
}

}  // namespace

void check_rounded_gradients(const GoldenModel& model, const Outcome& outcome, DType type) {
  CHECK(std::abs(outcome.steps[0].loss - model.tensor("step", "loss")[0]) <
        rounding_unit(type) * model.tensor("step", "loss")[0]);
  std::vector<float> all;
  std::vector<double> all_expected;
  for (auto [parameter, values] : outcome.first_gradients) {
    std::vector<double> expected = model.tensor("step", "grad." + parameter);
    blank_key_bias(parameter, values, expected);
    INFO(model.name() << " " << to_string(type) << " " << parameter);
    CHECK(relative_error(values, expected) <
          bound(depth_of(parameter, model.layers()), model.layers(), type));
    all.insert(all.end(), values.begin(), values.end());
    all_expected.insert(all_expected.end(), expected.begin(), expected.end());
  }
  // Small biases are the worst; of all numbers together half of the least bound is left.
  CHECK(relative_error(all, all_expected) <
        bound(static_cast<double>(model.layers() + 1), model.layers(), type) / 2);
}

void check_equal(const Outcome& a, const Outcome& b) {
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    CHECK(a.steps[i].loss == b.steps[i].loss);
    CHECK(a.steps[i].grad_norm == b.steps[i].grad_norm);
  }
  CHECK(a.weights == b.weights);
}

void check_equal_with_gradients(const Outcome& a, const Outcome& b) {
  check_equal(a, b);
  CHECK(a.first_gradients == b.first_gradients);
}

}  // namespace chimera::test
