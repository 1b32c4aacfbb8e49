// Whole models in bf16 and fp16 against PyTorch's float64 values.
#include "chimera/tensor/half.h"
#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

constexpr const char* kTypes[] = {"bf16", "fp16"};

Config in_type(Config config, const std::string& type) {
  config.precision.compute = type;
  return config;
}

}  // namespace

TEST_CASE("golden: in bf16 and fp16 every gradient of both models is PyTorch's, to rounding") {
  for (const std::string name : {"tied", "untied"})
    for (const std::string type : kTypes) {
      const GoldenModel model(name);
      const Outcome outcome = run_layout(model, in_type(model.config("plain"), type), 1);
      check_rounded_gradients(model, outcome, parse_compute_type(type));
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
