// A checkpoint belongs to no layout: saved under one, continued under another, with the same
// samples.
#include <cmath>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>

#include "chimera/base/rng.h"
#include "chimera/checkpoint/checkpoint.h"
#include "chimera/runtime/worker.h"
#include "chimera/train/checkpointing.h"
#include "chimera/train/trainer.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;
using chimera::Config;
using chimera::Worker;

namespace {

constexpr Index kVocabularySize = 60, kBatch = 8;

// Tokens are a function of the sample's number; which numbers were asked for is written down.
class LoggedSamples final : public SampleSource {
 public:
  struct Log {
    std::mutex mutex;
    std::set<Index> numbers;
  };
  LoggedSamples(Index T, Log& log) : T_(T), log_(log) {}
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    const std::lock_guard lock(log_.mutex);
    log_.numbers.insert(number);
    for (Index t = 0; t <= T_; ++t) {
      const auto bits = philox4x32(
          {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(t), 0, 0}, {3, 0})[0];
      const auto token = static_cast<std::int32_t>(bits % kVocabularySize);
      if (t < T_) inputs[t] = token;
      if (t > 0) targets[t - 1] = token;
    }
  }

 private:
  Index T_;
  Log& log_;
};

struct ResumeCase {
  const char* schedule;
  Index depth, width, micro_batches;
  int zero = 0;
  bool overlap = false;  // with the split backward that it needs
};
constexpr ResumeCase kResumeCases[] = {{"1f1b", 1, 1, 4},    {"1f1b", 2, 1, 8},
                                       {"gpipe", 4, 1, 4},   {"chimera", 2, 1, 4},
                                       {"chimera", 4, 1, 4}, {"chimera", 2, 2, 2, 1},
                                       {"1f1b", 2, 2, 4, 1}, {"chimera", 2, 1, 4, 0, true}};

std::string name_of(const ResumeCase& l) {
  return concat(l.schedule, " D", l.depth, " W", l.width, " N", l.micro_batches, " zero ", l.zero,
                l.overlap ? " overlapping" : "");
}

// Dropout is on: its masks must not depend on the layout either.
Config config_for(const ResumeCase& l, bool tied, const std::filesystem::path& checkpoints) {
  Config c;
  c.model.n_layer = 4, c.model.n_head = 2, c.model.n_embd = 16, c.model.n_positions = 8;
  c.model.vocab_size = kVocabularySize;
  c.model.tied_embeddings = tied;
  c.parallel.request.schedule = l.schedule;
  c.parallel.request.depth = narrow<int>(l.depth), c.parallel.request.width = narrow<int>(l.width);
  c.parallel.request.micro_batches = narrow<int>(l.micro_batches);
  c.parallel.micro_batch_size = div_exact(kBatch, l.width * l.micro_batches);
  c.parallel.request.zero_stage = l.zero;
  c.parallel.request.split_backward = c.parallel.request.overlap_steps = l.overlap;
  c.parallel.timeout_seconds = 60;
  c.optimizer.grad_clip = 0;  // which all of them can do
  c.optimizer.learning_rate = 3e-3;
  c.train.steps = 10;
  c.checkpoint.directory = checkpoints.string();
  return c;
}

struct Continuation {
  std::vector<double> losses;
  std::set<Index> samples;
};

// Resumes from `from` (empty: a fresh start), takes `steps` steps and saves, all under one layout.
// With no steps what was loaded is written again as it is.
Continuation run(const Config& config, const std::string& from, Index steps) {
  const Programs programs = build_programs(config);
  Continuation out;
  LoggedSamples::Log log;
  run_local(narrow<int>(config.workers()), config.parallel.timeout_seconds, 1,
            [&](Communicator& comm) {
              Worker worker(config, programs, comm, [] { return false; });
              LoggedSamples samples(config.sequence_length(), log);
              const train::Resumed start =
                  train::load_or_initialize(worker, config, {}, from.empty() ? "never" : from);
              for (Index step = start.step; step < start.step + steps; ++step) {
                const double loss = worker.train_step(samples, step).loss;
                if (comm.rank() == 0) out.losses.push_back(loss);
              }
              ENSURE(train::save_checkpoint(worker, config, {}, start.step + steps,
                                            (start.step + steps) * kBatch, "test"),
                     "not saved");
            });
  out.samples = log.numbers;
  return out;
}

std::map<std::string, std::string> tensor_checksums(const std::filesystem::path& directory) {
  std::map<std::string, std::string> out;
  const auto opened = checkpoint::Checkpoint::open(directory);
  for (const checkpoint::StoredTensor& t : opened.manifest().tensors) out[t.name] = t.checksum;
  return out;
}

void check_pairs(bool tied) {
  const TemporaryFolder folder;
  for (const ResumeCase& a : kResumeCases) {
    const auto saved = folder / (name_of(a) + " saved"), own = folder / (name_of(a) + " own");
    run(config_for(a, tied, saved), "", 3);
    const Continuation expected = run(config_for(a, tied, own), saved.string(), 3);
    std::set<Index> next;
    for (Index g = 3 * kBatch; g < 6 * kBatch; ++g) next.insert(g);
    CHECK(expected.samples == next);
    for (const ResumeCase& b : kResumeCases) {
      if (&a == &b) continue;
      INFO(name_of(a) << " -> " << name_of(b));
      const auto again = folder / (name_of(a) + " to " + name_of(b));
      const Config config = config_for(b, tied, again);
      run(config, saved.string(), 0);
      CHECK(tensor_checksums(again) == tensor_checksums(saved));
      const Continuation got = run(config, saved.string(), 3);
      CHECK(got.samples == expected.samples);
      // Only the order of sums differs: fp32 rounding over three steps stays below 1e-5.
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(std::abs(got.losses[i] - expected.losses[i]) < 1e-5 * expected.losses[i]);
    }
  }
}

}  // namespace

TEST_CASE("resume: every ordered pair of layouts, tied") { check_pairs(true); }
TEST_CASE("resume: every ordered pair of layouts, untied") { check_pairs(false); }

TEST_CASE("resume: with another batch size the next sample is the one after the last") {
  const TemporaryFolder folder;
  LoggedSamples::Log log;
  const auto train_to = [&](Index steps, Index batch) {
    Config config = config_for({"1f1b", 2, 1, 4}, true, folder / "checkpoints");
    config.parallel.micro_batch_size = batch / 4;
    config.train.steps = steps;
    config.checkpoint.keep = 10;
    train::RunInputs inputs;
    inputs.training = [&] { return std::make_unique<LoggedSamples>(8, log); };
    log.numbers.clear();
    REQUIRE(train::train_on(config, {}, inputs) == ExitCode::Done);
    return log.numbers;
  };
  const auto range = [](Index first, Index last) {
    std::set<Index> out;
    for (Index g = first; g < last; ++g) out.insert(g);
    return out;
  };
  CHECK(train_to(3, 8) == range(0, 24));
  CHECK(train_to(5, 4) == range(24, 32));
  CHECK(train_to(6, 16) == range(32, 48));
  CHECK(checkpoint::Checkpoint::open(folder / "checkpoints").manifest().consumed_samples == 48);
}

// The weights that forwards of the next steps use are older ones: they are in the checkpoint.
TEST_CASE("resume: stale schedules go on bitwise, and start from the newest weights elsewhere") {
  for (const ResumeCase& layout :
       {ResumeCase{"pipedream", 4, 1, 1}, ResumeCase{"pipedream-2bw", 2, 2, 4}}) {
    INFO(name_of(layout));
    const TemporaryFolder folder;
    const auto config = [&](const std::string& name) {
      return config_for(layout, false, folder / name);
    };
    run(config("whole"), "", 6);
    run(config("half"), "", 3);
    run(config("rest"), (folder / "half").string(), 3);
    CHECK(tensor_checksums(folder / "rest") == tensor_checksums(folder / "whole"));
    Config other = config_for({"1f1b", 2, 1, 4}, false, folder / "other");
    run(other, (folder / "half").string(), 0);
    for (const auto& [name, checksum] : tensor_checksums(folder / "other"))
      CHECK(tensor_checksums(folder / "half").at(name) == checksum);
  }
}
