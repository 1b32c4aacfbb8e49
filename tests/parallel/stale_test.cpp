// The asynchronous schedules against serial models of their own update rules.
#include <cmath>

#include "support/golden.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

using Weights = std::map<std::string, std::vector<float>>;

// AdamW as Loshchilov and Hutter write it (ICLR 2019), in double.
struct Adam {
  const optim::OptimizerConfig& o;
  std::map<std::string, std::vector<double>> m, v;
  void step(const std::string& name, std::vector<float>& w, const std::vector<float>& gradient,
            bool decays, double rate, Index t) {
    m[name].resize(w.size()), v[name].resize(w.size());
    const double n = static_cast<double>(t);
    for (std::size_t i = 0; i < w.size(); ++i) {
      double &mi = m[name][i], &vi = v[name][i];
      const double g = static_cast<double>(gradient[i]), x = static_cast<double>(w[i]);
      mi = o.beta1 * mi + (1 - o.beta1) * g;
      vi = o.beta2 * vi + (1 - o.beta2) * g * g;
      const double direction = mi / (1 - std::pow(o.beta1, n)) /
                               (std::sqrt(vi / (1 - std::pow(o.beta2, n))) + o.epsilon);
      w[i] = static_cast<float>(x - rate * (decays ? o.weight_decay : 0) * x - rate * direction);
    }
  }
};

struct SerialOutcome {
  std::vector<double> losses;
  Weights weights;
};

// Step t computes its gradients with the weights that each parameter had `lag(parameter)` updates
// before step t, and applies them to the newest. Losses and gradients come from a serial worker
// that is given those weights.
SerialOutcome serial_model(const GoldenModel& model, const Config& layout, Index steps,
                           const std::function<Index(const nn::Parameter&)>& lag) {
  Config config = with_layout(layout, "1f1b", 1, 1, 1, model.batch());
  const Index W = layout.parallel.request.width, N = layout.parallel.request.micro_batches;
  config.parallel.micro_batch_size = W * N * layout.parallel.micro_batch_size;
  const Programs programs = build_programs(config);
  const checkpoint::SafetensorsFile source(model.folder() + "/model.safetensors");
  SerialOutcome out;
  run_local(1, 60, 1, [&](Communicator& comm) {
    GoldenSamples samples(model);
    Worker worker(config, programs, comm, [] { return false; });
    Adam adam{config.optimizer, {}, {}};
    std::vector<Weights> versions(1);
    worker.for_each_parameter([&](const Worker::Entry& e) {
      source.read(e.parameter.name, e.weight);
      versions[0][e.parameter.name].assign(e.weight.f32(), e.weight.f32() + e.weight.size());
    });
    for (Index t = 0; t < steps; ++t) {
      worker.for_each_parameter([&](const Worker::Entry& e) {
        const auto number = static_cast<std::size_t>(std::max<Index>(0, t - lag(e.parameter)));
        std::ranges::copy(versions[number].at(e.parameter.name), e.weight.f32());
      });
      const StepResult result = worker.train_step(samples, t);
      out.losses.push_back(result.loss);
      versions.push_back(versions.back());
      worker.for_each_parameter([&](const Worker::Entry& e) {
        const std::vector<float> g(e.gradient.f32(), e.gradient.f32() + e.gradient.size());
        adam.step(e.parameter.name, versions.back()[e.parameter.name], g, e.parameter.decays(),
                  result.learning_rate, t + 1);
      });
    }
    out.weights = versions.back();
  });
  return out;
}

double difference(const Outcome& a, const SerialOutcome& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    most = std::max(most, std::abs(a.steps[i].loss - b.losses[i]));
  return most;
}

// The keys' bias has no gradient but rounding noise, which Adam turns into full steps.
double weight_difference(const Outcome& a, const SerialOutcome& b) {
  double most = 0;
  for (const auto& [name, values] : a.weights)
    if (values.size() > 200)
      most = std::max(
          most, relative_error(values, {b.weights.at(name).begin(), b.weights.at(name).end()}));
  return most;
}

// The stage of a parameter, by its depth in the model.
int stage_of(const nn::Parameter& p, const std::vector<Index>& layers) {
  Index end = 0;
  for (std::size_t s = 0; s < layers.size(); ++s)
    if (p.depth <= (end += layers[s])) return static_cast<int>(s);
  return static_cast<int>(layers.size()) - 1;
}

Config stale_config(const GoldenModel& model, const std::string& schedule, Index depth, Index width,
                    Index micro_batches) {
  Config config =
      with_layout(model.config("rich"), schedule, depth, width, micro_batches, model.batch());
  config.optimizer.grad_clip = 0;
  config.optimizer.layer_lr_decay = 1;
  return config;
}

}  // namespace

// Stage s of PipeDream works on weights that are D-1-s updates old, forward and backward alike.
TEST_CASE("pipedream equals a serial model of weight stashing, and not one of fresh weights") {
  const GoldenModel model("untied");
  for (const Index depth : {1, 2, 4})
    for (const Index width : {1, 2}) {
      INFO("D=" << depth << " W=" << width);
      const Config config = stale_config(model, "pipedream", depth, width, 1);
      const Index steps = model.steps();
      const Outcome outcome = run_layout(model, config, steps);
      const std::vector<Index> layers = stage_layers(config);
      const SerialOutcome expected =
          serial_model(model, config, steps,
                       [&](const nn::Parameter& p) { return depth - 1 - stage_of(p, layers); });
      CHECK(difference(outcome, expected) < 1e-5);
      CHECK(weight_difference(outcome, expected) < 5e-5);
      if (depth == 1) continue;
      const SerialOutcome fresh =
          serial_model(model, config, steps, [](const nn::Parameter&) { return 0; });
      CHECK(difference(outcome, fresh) > 1e-4);
    }
}

TEST_CASE("pipedream at depth 1 is plain training, bitwise") {
  const GoldenModel model("untied");
  const Outcome stale = run_layout(model, stale_config(model, "pipedream", 1, 1, 1), 4);
  const Outcome plain = run_layout(model, stale_config(model, "1f1b", 1, 1, 1), 4);
  CHECK(stale.weights == plain.weights);
}

// W(t+1) = W(t) - update(grad f(W(t-1))), W(-1) = W(0).
TEST_CASE("pipedream-2bw equals a serial model with a delay of one, tied and untied") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    for (const Index depth : {1, 2, 4})
      for (const Index width : {1, 2}) {
        if (model.batch() / width < depth) continue;
        INFO(name << " D=" << depth << " W=" << width);
        const Config config =
            stale_config(model, "pipedream-2bw", depth, width, model.batch() / width);
        const Outcome outcome = run_layout(model, config, model.steps());
        const SerialOutcome expected =
            serial_model(model, config, model.steps(), [](const nn::Parameter&) { return 1; });
        CHECK(difference(outcome, expected) < 1e-5);
        CHECK(weight_difference(outcome, expected) < 5e-5);
        const SerialOutcome fresh =
            serial_model(model, config, model.steps(), [](const nn::Parameter&) { return 0; });
        CHECK(difference(outcome, fresh) > 1e-4);
      }
  }
}
