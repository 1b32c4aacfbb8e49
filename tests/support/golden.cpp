#include "support/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "chimera/tensor/half.h"
#include "chimera/tensor/host_copy.h"
#include "support/support.h"

namespace chimera::test {
namespace {

Json load_json(const std::string& path) { return Json::parse(std::ifstream(path)); }

}  // namespace

GoldenModel::GoldenModel(const std::string& name)
    : name_(name), folder_((golden_folder() / name).string()) {
  const Json config = load_json(folder_ + "/config.json"),
             curves = load_json(folder_ + "/curves.json");
  model_.n_layer = config.at("n_layer").get<Index>();
  model_.n_head = config.at("n_head").get<Index>();
  model_.n_embd = config.at("n_embd").get<Index>();
  model_.n_positions = config.at("n_positions").get<Index>();
  model_.vocab_size = config.at("vocab_size").get<Index>();
  model_.tied_embeddings = config.at("tie_word_embeddings").get<bool>();
  model_.layer_norm_epsilon = config.at("layer_norm_epsilon").get<double>();
  model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
  batch_ = curves.at("batch").get<Index>();
  steps_ = curves.at("steps").get<Index>();
  T_ = curves.at("sequence_length").get<Index>();
  tokens_.resize(static_cast<std::size_t>(batch_ * steps_ * (T_ + 1)));
  const checkpoint::SafetensorsFile step(folder_ + "/step.safetensors");
  step.read("tokens", Tensor(tokens_.data(), DType::I32, {batch_ * steps_, T_ + 1}));
}

Config GoldenModel::config(const std::string& run) const {
  const Json o = load_json(folder_ + "/curves.json").at("runs").at(run).at("optimizer");
  Config c;
  c.model = model_;
  c.data.sequence_length = T_;
  c.parallel.micro_batch_size = batch_;
  c.parallel.timeout_seconds = 60;
  c.optimizer.learning_rate = o.at("learning_rate").get<double>();
  c.optimizer.beta1 = o.at("beta1").get<double>();
  c.optimizer.beta2 = o.at("beta2").get<double>();
  c.optimizer.epsilon = o.at("epsilon").get<double>();
  c.optimizer.weight_decay = o.at("weight_decay").get<double>();
  c.optimizer.grad_clip = o.at("grad_clip").get<double>();
  c.optimizer.label_smoothing = o.at("label_smoothing").get<double>();
  c.optimizer.layer_lr_decay = o.at("layer_lr_decay").get<double>();
  c.lr_schedule.warmup_steps = o.at("warmup_steps").get<Index>();
  c.lr_schedule.min_learning_rate = o.at("min_learning_rate").get<double>();
  c.train.steps = o.at("steps").get<Index>();
  return c;
}

std::vector<GoldenModel::Point> GoldenModel::curve(const std::string& run) const {
  std::vector<Point> points;
  const Json curves = load_json(folder_ + "/curves.json");
  for (const Json& p : curves.at("runs").at(run).at("curve"))
    points.push_back({p.at("loss").get<double>(), p.at("grad_norm").get<double>(),
                      p.at("learning_rate").get<double>()});
  return points;
}

std::vector<double> GoldenModel::tensor(const std::string& file, const std::string& name) const {
  const checkpoint::SafetensorsFile source(folder_ + "/" + file + ".safetensors");
  const checkpoint::TensorEntry& entry = source.at(name);
  const auto bytes = source.bytes(entry);
  const auto n = static_cast<std::size_t>(entry.bytes / size_of(entry.type));
  std::vector<double> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    float narrow_value = 0;
    if (entry.type == DType::F64) {
      std::memcpy(&out[i], bytes.data() + 8 * i, 8);
    } else {
      std::memcpy(&narrow_value, bytes.data() + 4 * i, 4);
      out[i] = static_cast<double>(narrow_value);
    }
  }
  return out;
}

void GoldenSamples::read(Index number, std::int32_t* inputs, std::int32_t* targets) {
  const Index step = number / model_.batch() % model_.steps(), row = number % model_.batch(),
              T = model_.sequence_length();
  const std::int32_t* tokens = model_.sample(
      step * model_.batch() + (order_.empty() ? row : order_[static_cast<std::size_t>(row)]));
  std::copy(tokens, tokens + T, inputs);
  std::copy(tokens + 1, tokens + T + 1, targets);
}

Config with_layout(Config config, const std::string& schedule, Index depth, Index width,
                   Index micro_batches, Index batch) {
  config.parallel.request.schedule = schedule;
  config.parallel.request.depth = narrow<int>(depth);
  config.parallel.request.width = narrow<int>(width);
  config.parallel.request.micro_batches = narrow<int>(micro_batches);
  config.parallel.micro_batch_size = div_exact(batch, width * micro_batches);
  return config;
}

void read_golden_weights(Worker& worker, const checkpoint::SafetensorsFile& source) {
  worker.for_each_parameter([&](const Worker::Entry& e) {
    std::vector<float> values(static_cast<std::size_t>(e.weight.size()));
    Region region = e.parameter.region;
    region.offset = 0;
    source.read(e.parameter.name, Flat{reinterpret_cast<std::byte*>(values.data())}.at(region));
    worker.set_weight(e, values);
  });
}

Outcome run_layout(const GoldenModel& model, const Config& config, Index steps,
                   const std::vector<Index>& order) {
  const Programs programs = build_programs(config);
  const checkpoint::SafetensorsFile source(model.folder() + "/model.safetensors");
  Outcome outcome;
  std::mutex mutex;
  run_local(
      narrow<int>(config.workers()), config.parallel.timeout_seconds, 1, [&](Communicator& comm) {
        GoldenSamples samples(model, order);
        const bool gpu = config.device.kind == "cuda";
        Worker worker(
            config, programs, comm, [] { return false; },
            gpu ? make_backend(config, programs, comm) : host_backend());
        read_golden_weights(worker, source);
        std::vector<StepResult> results;
        const auto store = [&](std::map<std::string, std::vector<float>>& into, bool gradients) {
          const std::lock_guard lock(mutex);
          worker.for_each_parameter([&](const Worker::Entry& e) {
            HostCopy copy(worker.device(), gradients ? e.gradient : e.weight);
            copy.load();
            std::vector<float> there(static_cast<std::size_t>(copy.here().size()));
            widen(there.data(), copy.here());
            const auto scale = static_cast<float>(gradients ? results.front().loss_scale : 1);
            for (float& x : there) x /= scale;
            // With sharded sums each holder has its range of the gradient.
            const optim::ShardRange range =
                gradients ? e.range : optim::ShardRange{0, std::ssize(there)};
            std::vector<float>& values =
                into.try_emplace(e.parameter.name, std::vector<float>(there.size(), NAN))
                    .first->second;
            for (Index i = range.first; i < range.first + range.count; ++i) {
              float& value = values[static_cast<std::size_t>(i)];
              const float mine = there[static_cast<std::size_t>(i)];
              // Every holder must have the same values, bit for bit.
              if (!std::isnan(value) && value != mine)
                throw Error("the holders of " + e.parameter.name + " differ");
              value = mine;
            }
          });
        };
        // The first step alone, since its gradients are looked at; the rest without a pause.
        results.push_back(worker.train_step(samples, 0));
        store(outcome.first_gradients, true);
        if (steps > 1)
          worker.train_steps(samples, 1, steps, [&](Index, const StepResult& result) {
            results.push_back(result);
            return false;
          });
        store(outcome.weights, false);
        const std::lock_guard lock(mutex);
        if (comm.rank() == 0) outcome.steps = results;
      });
  return outcome;
}

double relative_error(const std::vector<float>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (static_cast<double>(a.at(i)) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace chimera::test
