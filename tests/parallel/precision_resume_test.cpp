// Checkpoints of 16-bit runs: they hold the fp32 masters, and what is made of them goes on bitwise.
#include <mutex>
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "chimera/checkpoint/checkpoint.h"
#include "chimera/tensor/half.h"
#include "chimera/train/checkpointing.h"
#include "support/golden.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;
using chimera::Config;
using chimera::Worker;

namespace {

struct Variant {
  const char* compute;
  bool stochastic;
  const char* schedule;
  Index depth, width, micro_batches;
  int zero;
};
constexpr Variant kVariants[] = {
    {"bf16", false, "1f1b", 2, 1, 4, 0},    {"bf16", true, "1f1b", 2, 2, 2, 1},
    {"bf16", true, "chimera", 2, 1, 2, 0},  {"bf16", true, "pipedream-2bw", 2, 1, 4, 0},
    {"fp16", false, "chimera", 2, 2, 2, 1}, {"fp16", true, "1f1b", 1, 1, 4, 0}};

Config config_for(const GoldenModel& model, const Variant& v, const std::string& checkpoints) {
  Config config = with_layout(model.config("rich"), v.schedule, v.depth, v.width, v.micro_batches,
                              model.batch());
  config.model.embd_pdrop = config.model.attn_pdrop = config.model.resid_pdrop = 0.1;
  config.precision.compute = v.compute;
  config.precision.stochastic_rounding = v.stochastic;
  config.parallel.request.zero_stage = v.zero;
  config.optimizer.grad_clip = 0;  // which all of them can do
  config.checkpoint.directory = checkpoints;
  return config;
}

struct Reached {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> weights;  // as computed with, in fp32
  optim::LossScale::State scale;
};

// Resumes from `from` (empty: a fresh start, at a loss scale that overflows for some steps), takes
// `steps` steps and saves.
Reached run(const GoldenModel& model, const Config& config, const std::string& from, Index steps) {
  const Programs programs = build_programs(config);
  Reached out;
  std::mutex mutex;
  run_local(narrow<int>(config.workers()), 60, 1, [&](Communicator& comm) {
    Worker worker(config, programs, comm, [] { return false; });
    GoldenSamples samples(model);
    const train::Resumed start =
        train::load_or_initialize(worker, config, {}, from.empty() ? "never" : from);
    if (from.empty() && config.precision.compute == "fp16")
      worker.restore_loss_scale({.scale = 0x1p26, .good_steps = 5, .skipped = 0});
    std::vector<double> losses;
    worker.train_steps(samples, start.step, start.step + steps, [&](Index, const StepResult& r) {
      losses.push_back(r.loss);
      return false;
    });
    ENSURE(train::save_checkpoint(worker, config, {}, start.step + steps,
                                  (start.step + steps) * config.batch(), "test"),
           "not saved");
    const std::lock_guard lock(mutex);
    worker.for_each_parameter([&](const Worker::Entry& e) {
      std::vector<float>& values = out.weights[e.parameter.name];
      values.resize(static_cast<std::size_t>(e.weight.size()));
      widen(values.data(), e.weight);
    });
    if (comm.rank() == 0) out.losses = losses, out.scale = worker.loss_scale().state();
  });
  return out;
}

std::map<std::string, std::string> tensor_checksums(const std::string& directory) {
  std::map<std::string, std::string> out;
  const auto opened = checkpoint::Checkpoint::open(directory);
  for (const checkpoint::StoredTensor& t : opened.manifest().tensors) {
    CHECK(t.type == DType::F32);
    out[t.name] = t.checksum;
  }
  return out;
}

}  // namespace

TEST_CASE("resume: in 16 bits bitwise, rounded to nearest or at random, after skipped steps, too") {
  const GoldenModel model("untied");
  for (const Variant& v : kVariants) {
    INFO(v.compute << (v.stochastic ? " stochastic " : " ") << v.schedule << " ZeRO " << v.zero);
    const TemporaryFolder folder;
    const auto config = [&](const std::string& name) {
      return config_for(model, v, (folder / name).string());
    };
    const Reached whole = run(model, config("whole"), "", 8);
    const Reached half = run(model, config("half"), "", 4);
    const Reached rest = run(model, config("rest"), (folder / "half").string(), 4);
    CHECK(rest.weights == whole.weights);
    CHECK(std::vector(whole.losses.begin() + 4, whole.losses.end()) == rest.losses);
    CHECK(tensor_checksums((folder / "rest").string()) ==
          tensor_checksums((folder / "whole").string()));
    CHECK(rest.scale.scale == whole.scale.scale);
    CHECK(rest.scale.good_steps == whole.scale.good_steps);
    CHECK(rest.scale.skipped == whole.scale.skipped);
    if (std::string(v.compute) != "fp16") continue;
    CHECK(half.scale.skipped > 0);  // the point was passed where the scale matters
    CHECK(whole.scale.skipped < 8);
  }
}

TEST_CASE("resume: what was loaded is what is saved again, on any layout and in any precision") {
  const GoldenModel model("untied");
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string();
  run(model, config_for(model, kVariants[1], saved), "", 3);
  const auto expected = tensor_checksums(saved);
  int number = 0;
  for (const Variant& v :
       {kVariants[0], kVariants[2], kVariants[4], Variant{"fp32", false, "1f1b", 2, 1, 4, 0},
        Variant{"fp32", false, "chimera", 2, 2, 2, 1}}) {
    const std::string again = (folder / concat("again", ++number)).string();
    run(model, config_for(model, v, again), saved, 0);
    INFO(v.compute << " " << v.schedule);
    CHECK(tensor_checksums(again) == expected);
  }
}

TEST_CASE("resume: a run of the same bits whatever the layout that goes on, masters and moments") {
  const GoldenModel model("untied");
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string();
  const Variant serial{"bf16", true, "1f1b", 1, 1, 4, 0}, deep{"bf16", true, "1f1b", 2, 1, 4, 0};
  run(model, config_for(model, serial, saved), "", 3);
  const Reached a = run(model, config_for(model, serial, (folder / "a").string()), saved, 3),
                b = run(model, config_for(model, deep, (folder / "b").string()), saved, 3);
  CHECK(a.losses == b.losses);
  CHECK(a.weights == b.weights);
}

TEST_CASE("a checkpoint of an fp32 run says nothing of a loss scale; an fp16 one does") {
  const GoldenModel model("untied");
  const TemporaryFolder folder;
  const auto state = [&](const Variant& v, const std::string& name) {
    const std::string directory = (folder / name).string();
    run(model, config_for(model, v, directory), "", 1);
    return parse_json(checkpoint::Checkpoint::open(directory).manifest().state, "state");
  };
  CHECK(state({"fp32", false, "1f1b", 1, 1, 4, 0}, "fp32") == Json::object());
  const Json fp16 = state({"fp16", false, "1f1b", 1, 1, 4, 0}, "fp16");
  CHECK(fp16.at("loss_scale").at("scale") == 0x1p25);
  CHECK(fp16.at("loss_scale").at("skipped_steps") == 1);
}

TEST_CASE("a checkpoint with a loss scale that cannot be is refused") {
  const GoldenModel model("untied");
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string();
  const Variant v{"fp16", false, "1f1b", 1, 1, 4, 0};
  run(model, config_for(model, v, saved), "", 1);
  const auto path = checkpoint::Checkpoint::open(saved).path() / "manifest.json";
  const checkpoint::Manifest whole = checkpoint::parse_manifest(slurp(path), "the manifest");
  for (const std::string wrong :
       {R"(5)", R"({"scale": 2})", R"({"scale": "x", "good_steps": 0, "skipped_steps": 0})",
        R"({"scale": 0.5, "good_steps": 0, "skipped_steps": 0})",
        R"({"scale": 1e300, "good_steps": 0, "skipped_steps": 0})",
        R"({"scale": 2, "good_steps": -1, "skipped_steps": 0})",
        R"({"scale": 2, "good_steps": 0.5, "skipped_steps": 0})",
        R"({"scale": 2, "good_steps": 0, "skipped_steps": 2})"}) {
    checkpoint::Manifest manifest = whole;
    manifest.state = R"({"loss_scale": )" + wrong + "}";
    spit(path, checkpoint::to_text(manifest));
    INFO(wrong);
    CHECK_THROWS_AS(run(model, config_for(model, v, saved), saved, 0), Error);
  }
  spit(path, checkpoint::to_text(whole));
  CHECK_NOTHROW(run(model, config_for(model, v, (folder / "again").string()), saved, 0));
}
