// The corners of the layouts: pipes without micro-batches, shards smaller than a block, one stage;
// and what a run is cut by.
#include <cmath>

#include "chimera/base/rng.h"
#include "chimera/runtime/worker.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;
using chimera::Config;
using chimera::StepResult;
using chimera::Worker;

namespace {

constexpr Index kVocabulary = 50;

class Samples final : public SampleSource {
 public:
  explicit Samples(Index T) : T_(T) {}
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    for (Index t = 0; t <= T_; ++t) {
      const auto bits = philox4x32(
          {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(t), 0, 0}, {3, 0})[0];
      const auto token = static_cast<std::int32_t>(bits % kVocabulary);
      if (t < T_) inputs[t] = token;
      if (t > 0) targets[t - 1] = token;
    }
  }

 private:
  Index T_;
};

Config config_of(const std::string& schedule, Index depth, Index N, Index width, bool tied) {
  Config c;
  c.model.n_layer = 4, c.model.n_head = 2, c.model.n_embd = 16, c.model.n_positions = 8;
  c.model.vocab_size = kVocabulary;
  c.model.tied_embeddings = tied;
  c.parallel.request.schedule = schedule;
  c.parallel.request.depth = narrow<int>(depth), c.parallel.request.width = narrow<int>(width);
  c.parallel.request.micro_batches = narrow<int>(N);
  c.parallel.micro_batch_size = 1;
  c.parallel.timeout_seconds = 20;
  c.optimizer.learning_rate = 3e-3;
  c.optimizer.grad_clip = 0;  // which all of them can do
  c.train.steps = 20;
  return c;
}

using Results = std::vector<StepResult>;

// What worker 0 saw of body(worker, results).
Results run(const Config& config, const std::function<void(Worker&, Results&)>& body) {
  const Programs programs = build_programs(config);
  Results results;
  run_local(narrow<int>(config.workers()), config.parallel.timeout_seconds, 1,
            [&](Communicator& comm) {
              Worker worker(config, programs, comm, [] { return false; });
              worker.initialize_weights();
              Results mine;
              body(worker, mine);
              if (comm.rank() == 0) results = mine;
            });
  return results;
}

void go_on(Worker& worker, Index first, Index last, Results& results) {
  Samples samples(8);
  const Index reached =
      worker.train_steps(samples, first, last, [&](Index, const StepResult& result) {
        results.push_back(result);
        return false;
      });
  ENSURE(reached == last, "the run ended at step ", reached);
}

Results run_steps(const Config& config, Index steps) {
  return run(config, [&](Worker& worker, Results& results) { go_on(worker, 0, steps, results); });
}

void check_equal(const Results& a, const Results& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("step " << i);
    CHECK(a[i].loss == b[i].loss);
    CHECK(a[i].grad_norm == b[i].grad_norm);
  }
}

}  // namespace

// 16 holders of a stage of 53,000 elements: a shard is smaller than a block of 4,096, so some of
// them are empty, and a norm is handed on past those.
TEST_CASE("shards smaller than a block change no bit") {
  for (const std::string schedule : {"1f1b", "chimera"}) {
    INFO(schedule);
    const Index depth = schedule == "chimera" ? 2 : 1;
    Config config = config_of(schedule, depth, 1, 16 / depth, false);
    config.model.n_layer = depth, config.model.n_embd = 64;
    config.parallel.request.micro_batches = narrow<int>(depth);
    const Results expected = run_steps(config, 2);
    config.parallel.request.zero_stage = 1;
    check_equal(run_steps(config, 2), expected);
  }
}

// Gradients of a step that is run once more do not add to those of the first time.
TEST_CASE("a step that is begun again has the same gradient") {
  const Results results = run(config_of("1f1b", 2, 2, 1, true), [](Worker& worker, Results& out) {
    for (int time = 0; time < 2; ++time) {
      worker.begin_at(0);
      worker.initialize_weights();
      go_on(worker, 0, 1, out);
    }
  });
  CHECK(results.at(0).loss == results.at(1).loss);
  CHECK(results.at(0).grad_norm == results.at(1).grad_norm);
}

// Losses of a few steps differ from the serial run's by rounding of fp32: 1e-5 is generous. (More
// than two hundred runs: minutes under a sanitizer.)
TEST_CASE("any number of micro-batches, on any number of replicas, equals the serial run",
          "[no-sanitizer]") {
  struct Case {
    const char* schedule;
    Index depth;
    bool split = false, overlap = false;
    Index pairs = 1;
  };
  for (const Case& c : {Case{"gpipe", 1},
                        {"gpipe", 3},
                        {"gems", 1},
                        {"gems", 4},
                        {"zb-h1", 1},
                        {"zb-h1", 4},
                        {"interleaved", 1},
                        {"chimera", 2},
                        {"chimera", 4},
                        {"chimera", 4, false, false, 2},
                        {"chimera", 2, true},
                        {"chimera", 4, true},
                        {"chimera", 2, true, true},
                        {"chimera", 4, true, true}})
    for (const Index N : {1, 3, 5})
      for (const Index W : {1, 2}) {
        const bool tied = (N / 2 + W) % 2 == 0;
        INFO(c.schedule << " D=" << c.depth << " N=" << N << " W=" << W << " f=" << c.pairs
                        << " tied " << tied << " split " << c.split << " overlap " << c.overlap);
        const Results serial = run_steps(config_of("1f1b", 1, N * W, 1, tied), 3);
        for (const bool later : {false, true}) {
          Config config = config_of(c.schedule, c.depth, N, W, tied);
          config.parallel.request.split_backward = c.split;
          config.parallel.request.overlap_steps = c.overlap;
          config.parallel.request.pipeline_pairs = narrow<int>(c.pairs);
          config.parallel.request.gradient_sync = later ? "eager" : "lazy";
          config.parallel.request.zero_stage = later && !c.overlap ? 1 : 0;
          const Results results = run_steps(config, 3);
          REQUIRE(results.size() == serial.size());
          for (std::size_t i = 0; i < serial.size(); ++i) {
            const auto& [got, expected] = std::pair(results[i], serial[i]);
            CHECK(std::abs(got.loss - expected.loss) < 1e-5 * expected.loss);
            CHECK(std::abs(got.grad_norm - expected.grad_norm) < 1e-4 * expected.grad_norm);
          }
        }
      }
}

TEST_CASE("pauses and evaluations between overlapping runs change no bit") {
  for (Config config :
       {config_of("pipedream", 1, 1, 1, false), config_of("pipedream", 4, 1, 2, false),
        config_of("pipedream-2bw", 1, 1, 2, true), config_of("pipedream-2bw", 4, 5, 1, true),
        config_of("chimera", 2, 3, 1, true), config_of("chimera", 4, 4, 2, false)}) {
    config.parallel.request.split_backward = config.parallel.request.overlap_steps =
        config.parallel.request.schedule == "chimera";
    INFO(config.parallel.request.schedule << " D=" << config.parallel.request.depth);
    const Results expected = run_steps(config, 9);
    const Results paused = run(config, [](Worker& worker, Results& results) {
      Samples samples(8);
      const double before = worker.evaluate(samples, 3).loss;
      go_on(worker, 0, 1, results);
      go_on(worker, 1, 6, results);
      ENSURE(worker.evaluate(samples, 3).loss != before, "nothing was trained");
      go_on(worker, 6, 9, results);
    });
    check_equal(paused, expected);
  }
}

namespace {

// One worker's file ends: the others are in the middle of messages and reductions.
class EndingSamples final : public SampleSource {
 public:
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    ENSURE(number != 21, "no sample 21");
    good_.read(number, inputs, targets);
  }

 private:
  Samples good_{8};
};

}  // namespace

// The deadline is 20 s: without the failure's message it would be reached.
TEST_CASE("a worker that fails ends the job with its own error, wherever the others are") {
  for (const char* schedule : {"gpipe", "chimera", "pipedream-2bw", "overlapping chimera"})
    for (const bool training : {true, false}) {
      const bool overlap = std::string(schedule).find(' ') != std::string::npos;
      Config config = config_of(overlap ? "chimera" : schedule, 4, 5, 2, true);
      config.parallel.request.overlap_steps = config.parallel.request.split_backward = overlap;
      config.parallel.request.gradient_sync = "eager";
      config.parallel.request.zero_stage = overlap || schedule[0] == 'p' ? 0 : 1;
      INFO(schedule << ", training: " << training);
      try {
        run(config, [&](Worker& worker, Results&) {
          EndingSamples samples;
          if (training)
            worker.train_steps(samples, 0, 9, [](Index, const StepResult&) { return false; });
          else
            worker.evaluate(samples, 30);
        });
        FAIL("nothing was thrown");
      } catch (const Error& error) {
        CHECK_THAT(error.what(), Catch::Contains("no sample 21"));
      }
    }
}

// With a barrier before any update; without one the message says that there have been some.
TEST_CASE("a loss that is not finite ends the job and says what became of the weights") {
  for (const auto& [schedule, outcome] :
       {std::pair{"1f1b", "no worker applied the step"}, {"pipedream-2bw", "nothing is saved"}}) {
    const Config config = config_of(schedule, 2, 2, 1, false);
    const auto poisoned = [&] {
      run(config, [](Worker& worker, Results& out) {
        worker.for_each_parameter([](const Worker::Entry& e) {
          if (e.parameter.name.find("h.1") != std::string::npos) e.weight.f32()[0] = NAN;
        });
        go_on(worker, 0, 4, out);
      });
    };
    CHECK_THROWS_WITH(
        poisoned(), Catch::Contains("step 1: the loss is not finite") && Catch::Contains(outcome));
  }
}
