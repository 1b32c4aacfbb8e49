// Runs in 16 bits as a user starts them.
#include <cmath>
#include <nlohmann/json.hpp>

#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;

double number(const Json& line, const char* key) { return line.at(key).get<double>(); }

}  // namespace

TEST_CASE("precision: bf16 and fp16 train like fp32; eval and generate read their checkpoints") {
  const Project project;
  REQUIRE(project.train("fp32").exit_code == 0);
  const auto reference = project.metrics("fp32", "loss");
  for (const std::string type : {"bf16", "fp16"}) {
    const CommandResult r = project.train(type, "--set precision.compute=" + type);
    INFO(r.out << r.err);
    REQUIRE(r.exit_code == 0);
    CHECK_THAT(r.out, Contains("tokens, in " + type + "\n") && Contains("master weights"));
    const auto losses = project.metrics(type, "loss");
    REQUIRE(losses.size() == reference.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(std::abs(number(losses[i], "loss") - number(reference[i], "loss")) < 0.05);
    CHECK(losses.back().contains("loss_scale") == (type == "fp16"));
    // Evaluated in fp32 from the masters: the rounding of weights to 16 bits apart, the run's own.
    const double own = number(project.metrics(type, "validation_loss").back(), "validation_loss");
    const CommandResult eval =
        project.run(type, "eval --checkpoint checkpoints --data '../data/val-*.bin'");
    INFO(eval.out << eval.err);
    REQUIRE(eval.exit_code == 0);
    CHECK(own ==
          Approx(number(project.metrics("fp32", "validation_loss").back(), "validation_loss"))
              .margin(0.05));
    const CommandResult text =
        project.run(type, "generate --checkpoint checkpoints --prompt 'the sea' --max-tokens 4");
    INFO(text.err);
    CHECK(text.exit_code == 0);
  }
}

TEST_CASE(
    "precision: fp16 prints its loss scale; a run may go on in another precision, and says so") {
  const Project project;
  const CommandResult first = project.train(
      "run", "--set precision.compute=fp16 --set precision.loss_scale=1024 --set train.steps=6");
  INFO(first.out << first.err);
  REQUIRE(first.exit_code == 0);
  CHECK_THAT(first.out, Contains("| loss scale 1024 |"));
  const CommandResult rest = project.train("run", "--set precision.compute=bf16");
  INFO(rest.out << rest.err);
  REQUIRE(rest.exit_code == 0);
  CHECK_THAT(rest.out, Contains("after step 6"));
  CHECK_THAT(rest.err, Contains("precision.compute \"fp16\" -> \"bf16\""));
}

TEST_CASE("precision: steps that overflow are skipped, printed, and in the metrics") {
  const Project project;
  // A scale of 2^32 overflows on any model: a fixed one ends the job and says what would help.
  const CommandResult fixed =
      project.train("fixed", "--set precision.compute=fp16 --set precision.loss_scale=4294967296");
  CHECK(fixed.exit_code == 1);
  CHECK_THAT(fixed.err, Contains("is not finite at a loss scale of") && Contains("dynamic"));
  // Large initial weights make gradients that 65536 is too much for.
  const CommandResult dynamic =
      project.train("dynamic", "--set precision.compute=fp16 --set model.initializer_range=1.5");
  INFO(dynamic.out << dynamic.err);
  REQUIRE(dynamic.exit_code == 0);
  const auto steps = project.metrics("dynamic", "loss_scale");
  CHECK(number(steps.front(), "loss_scale") == 65536);
  CHECK(number(steps.front(), "skipped_steps") == 1);
  CHECK(number(steps.back(), "loss_scale") < 65536);
  CHECK(number(steps.back(), "skipped_steps") == 0);
  CHECK_THAT(dynamic.out, Contains("loss scale 65536, 1 skipped"));
}

}  // namespace chimera::test
