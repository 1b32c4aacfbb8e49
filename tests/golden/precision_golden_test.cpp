// Whole models in bf16 and fp16 against PyTorch's float64 values.
#include <cmath>

#include "chimera/tensor/half.h"
#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

constexpr const char* kTypes[] = {"bf16", "fp16"};

train::Config in_type(train::Config config, const std::string& type) {
  config.precision.compute = type;
  return config;
}

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

TEST_CASE("golden: in bf16 and fp16 every gradient of both models is PyTorch's, to rounding") {
  for (const std::string name : {"tied", "untied"})
    for (const std::string type : kTypes) {
      const GoldenModel model(name);
      const Outcome outcome = run_layout(model, in_type(model.config("plain"), type), 1);
      const DType dtype = parse_compute_type(type);
      CHECK(std::abs(outcome.steps[0].loss - model.tensor("step", "loss")[0]) <
            rounding_unit(dtype) * model.tensor("step", "loss")[0]);
      std::vector<float> all;
      std::vector<double> all_expected;
      for (auto [parameter, values] : outcome.first_gradients) {
        std::vector<double> expected = model.tensor("step", "grad." + parameter);
        blank_key_bias(parameter, values, expected);
        INFO(name << " " << type << " " << parameter);
        CHECK(relative_error(values, expected) <
              bound(depth_of(parameter, model.layers()), model.layers(), dtype));
        all.insert(all.end(), values.begin(), values.end());
        all_expected.insert(all_expected.end(), expected.begin(), expected.end());
      }
      // Small biases are the worst; of all numbers together half of the least bound is left.
      CHECK(relative_error(all, all_expected) <
            bound(static_cast<double>(model.layers() + 1), model.layers(), dtype) / 2);
    }
}

TEST_CASE("golden: in bf16 and fp16 the losses of both models follow PyTorch's") {
  for (const std::string name : {"tied", "untied"})
    for (const std::string type : kTypes)
      for (const std::string run : {"plain", "rich"}) {
        const GoldenModel model(name);
        const auto curve = model.curve(run);
        const Outcome outcome =
            run_layout(model, in_type(model.config(run), type), std::ssize(curve));
        for (std::size_t i = 0; i < curve.size(); ++i) {
          INFO(name << " " << type << " " << run << " step " << i);
          CHECK(std::abs(outcome.steps[i].loss - curve[i].loss) < 0.05);
          CHECK(outcome.steps[i].learning_rate == Approx(curve[i].learning_rate));
          CHECK_FALSE(outcome.steps[i].skipped);
        }
      }
}
