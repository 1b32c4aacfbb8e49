// Whole models against PyTorch's float64 values: gradients, curves and final parameters, serial and
// under every schedule, depth and number of micro-batches that the reference allows.
#include "chimera/model/decoder.h"
#include "support/golden_checks.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

std::vector<Index> divisors(Index n) {
  std::vector<Index> out;
  for (Index d = 1; d <= n; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

// One way of running a model; every depth and N that it allows are taken.
struct Way {
  std::string schedule;
  Index pairs = 1;
  std::string scaling = "direct";
  bool split = false;
  Index virtual_stages = 1;
};

void check_way(const std::string& name, const Way& way) {
  const GoldenModel model(name);
  int runs = 0;
  for (const std::string run : {"plain", "rich"})
    for (const Index depth : divisors(model.layers()))
      for (const Index micro_batches : divisors(model.batch())) {
        Config config =
            with_layout(model.config(run), way.schedule, depth, 1, micro_batches, model.batch());
        config.parallel.request.pipeline_pairs = narrow<int>(way.pairs);
        config.parallel.request.scaling = way.scaling;
        config.parallel.request.split_backward = way.split;
        config.parallel.request.virtual_stages = narrow<int>(way.virtual_stages);
        if (depth * way.virtual_stages > model.layers() ||
            !schedule::refusal(schedule_request(config)).empty())
          continue;
        INFO(way.schedule << " " << way.scaling << " f=" << way.pairs << " split " << way.split
                          << " v=" << way.virtual_stages << " D=" << depth
                          << " N=" << micro_batches);
        check_curve(model, run, run_layout(model, config, model.steps()));
        ++runs;
      }
  CHECK(runs > 0);
}

}  // namespace

TEST_CASE("golden: loss and every gradient of both models equal PyTorch's") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    const Outcome outcome = run_layout(model, model.config("plain"), 1);
    CHECK(std::abs(outcome.steps[0].loss - model.tensor("step", "loss")[0]) < 2e-6);
    check_gradients(model, outcome, "");
    Config smoothed = model.config("plain");
    smoothed.optimizer.label_smoothing = 0.1;
    const Outcome smooth = run_layout(model, smoothed, 1);
    CHECK(std::abs(smooth.steps[0].loss - model.tensor("step", "smoothed.loss")[0]) < 2e-6);
    check_gradients(model, smooth, "smoothed.");
  }
}

TEST_CASE("golden: the decoder's logits equal PyTorch's at every position") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    const auto device = make_host_device();
    const auto ops = make_cpu_ops();
    model::Decoder decoder(model.config("plain").model, *device, *ops);
    const checkpoint::SafetensorsFile source(model.folder() + "/model.safetensors");
    decoder.for_each_weight([&](const nn::Parameter& p, Tensor w) { source.read(p.name, w); });
    const std::vector<double> expected = model.tensor("step", "logits");
    const auto T = static_cast<std::size_t>(model.sequence_length()),
               V = expected.size() / T / static_cast<std::size_t>(model.batch());
    for (std::size_t b = 0; b < static_cast<std::size_t>(model.batch()); ++b) {
      decoder.reset();
      for (std::size_t t = 0; t < T; ++t) {
        // The first half token by token, the rest of an odd batch row in one piece: both paths of
        // the cache.
        const bool whole = b % 2 == 1 && t == T / 2;
        const std::size_t n = whole ? T - t : 1;
        const Tensor logits = decoder.append({model.sample(static_cast<Index>(b)) + t, n});
        t += n - 1;
        const std::vector<float> mine(logits.f32(), logits.f32() + V);
        const std::vector<double> row(
            expected.begin() + static_cast<std::ptrdiff_t>((b * T + t) * V),
            expected.begin() + static_cast<std::ptrdiff_t>((b * T + t + 1) * V));
        CHECK(relative_error(mine, row) < 1e-5);
      }
    }
  }
}

TEST_CASE("golden: gpipe, every depth and N, tied") { check_way("tied", {"gpipe"}); }
TEST_CASE("golden: gpipe, every depth and N, untied") { check_way("untied", {"gpipe"}); }
TEST_CASE("golden: 1f1b, every depth and N, tied") { check_way("tied", {"1f1b"}); }
TEST_CASE("golden: 1f1b, every depth and N, untied") { check_way("untied", {"1f1b"}); }
TEST_CASE("golden: chimera, every depth and N, tied") { check_way("tied", {"chimera"}); }
TEST_CASE("golden: chimera, every depth and N, untied") { check_way("untied", {"chimera"}); }
TEST_CASE("golden: gems, every depth and N, tied") { check_way("tied", {"gems"}); }
TEST_CASE("golden: gems, every depth and N, untied") { check_way("untied", {"gems"}); }
TEST_CASE("golden: zb-h1, every depth and N, tied") { check_way("tied", {"zb-h1"}); }
TEST_CASE("golden: zb-h1, every depth and N, untied") { check_way("untied", {"zb-h1"}); }
TEST_CASE("golden: interleaved, every depth and N") {
  for (const std::string name : {"tied", "untied"})
    check_way(name, {"interleaved", 1, "direct", false, 2});
}
TEST_CASE("golden: chimera with more pipelines, doubling, halving and a split backward") {
  for (const std::string name : {"tied", "untied"}) {
    check_way(name, {"chimera", 2});
    check_way(name, {"chimera", 1, "doubling"});
    check_way(name, {"chimera", 1, "halving"});
    check_way(name, {"chimera", 2, "doubling"});
    check_way(name, {"chimera", 1, "direct", true});
    check_way(name, {"chimera", 2, "direct", true});
  }
}

TEST_CASE("golden: two replicas of each schedule equal PyTorch's curves") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    for (const std::string schedule : {"gpipe", "1f1b", "chimera", "gems", "zb-h1"})
      check_curve(model, "rich",
                  run_layout(model,
                             with_layout(model.config("rich"), schedule, 2, 2, model.batch() / 2,
                                         model.batch()),
                             model.steps()));
  }
}
