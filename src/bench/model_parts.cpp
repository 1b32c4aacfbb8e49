#include "chimera/bench/model_parts.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "chimera/base/rng.h"
#include "chimera/base/stopwatch.h"
#include "chimera/base/threads.h"
#include "chimera/comm/collectives.h"
#include "chimera/device/device.h"
#include "chimera/model/stage.h"
#include "chimera/optim/optimizer.h"

namespace chimera::bench {
namespace {

// A stage with memory of its own and one micro-batch in it.
class LoneStage {
 public:
  LoneStage(Device& device, Ops& ops, const model::ModelConfig& model, std::vector<Index> layers,
            int stage, Index B, Index T, bool split, nn::Recompute recompute)
      : ops_(ops),
        B_(B),
        T_(T),
        stage_(model, layers, stage, B, T, split, recompute),
        tied_layout_(model::tied_parameters(model)) {
    const auto filled = [&](Index bytes, float deviation) {
      Buffer buffer(device, bytes);
      fill_normal(floats(buffer), bytes / 4, 0, 0, deviation, 1, 1);
      return buffer;
    };
    weights_ = filled(stage_.parameters().layout.bytes(), 0.02f);
    gradients_ = filled(stage_.parameters().layout.bytes(), 0);
    tied_ = filled(tied_layout_.layout.bytes(), 0.02f);
    tied_gradients_ = filled(tied_layout_.layout.bytes(), 0);
    boundary_ = filled(stage_.boundary_layout().bytes(), 0);
    activations_ = filled(stage_.activation_layout().bytes(), 0);
    workspace_ = filled(stage_.workspace_layout().bytes(), 0);
    const nn::BufferView all = boundary();
    for (Index i = 0; i < B * T; ++i) {
      stage_.tokens(all).i32()[i] = static_cast<std::int32_t>(i * 7919 % model.vocab_size);
      stage_.targets(all).i32()[i] = static_cast<std::int32_t>(i * 104729 % model.vocab_size);
    }
    fill_normal(stage_.input(all).f32(), stage_.input(all).size(), 0, 0, 1, 2, 2);
  }

  void forward() {
    nn::Pass p = pass();
    stage_.forward(p, 0);
  }
  void recompute() {
    nn::Pass p = pass();
    stage_.recompute(p);
  }
  // Backwards replace the gradient by that of the input: without a fresh one, repetitions would end
  // in numbers that are slow to compute with.
  void backward() {
    renew_gradient();
    nn::Pass p = pass();
    stage_.backward(p);
  }
  void backward_input() {
    renew_gradient();
    nn::Pass p = pass();
    stage_.backward_input(p);
  }
  void backward_weight() {
    nn::Pass p = pass();
    stage_.backward_weight(p);
  }
  const model::Stage& stage() const { return stage_; }
  nn::BufferView boundary() const { return {Flat{boundary_.data()}, 0, B_, T_}; }
  Flat weights() const { return {weights_.data()}; }
  Flat gradients() const { return {gradients_.data()}; }

 private:
  static float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
  nn::Pass pass() {
    return {.ops = ops_,
            .weights = weights(),
            .gradients = gradients(),
            .tied_weights = Flat{tied_.data()},
            .tied_embedding_gradients = Flat{tied_gradients_.data()},
            .tied_head_gradients = Flat{tied_gradients_.data()},
            .boundary = boundary(),
            .activations = {Flat{activations_.data()}, 0, B_, T_},
            .workspace = Flat{workspace_.data()},
            .dropout_seed = 1,
            .loss_scale = 1.0f / static_cast<float>(B_ * T_)};
  }
  void renew_gradient() {
    const Tensor from = stage_.input(boundary()), to = stage_.gradient(boundary());
    std::copy_n(from.f32(), from.size(), to.f32());
  }

  Ops& ops_;
  Index B_, T_;
  model::Stage stage_;
  nn::ParameterLayout tied_layout_;
  Buffer weights_, gradients_, tied_, tied_gradients_, boundary_, activations_, workspace_;
};

// Zeroed gradients, their norm, and AdamW, on as many parameters as the stage has.
std::function<void()> optimizer_body(Device& device, Ops& ops, LoneStage& lone, Buffer& m,
                                     Buffer& v) {
  const nn::ParameterLayout& params = lone.stage().parameters();
  const Index bytes = params.layout.bytes();
  m = Buffer(device, bytes);
  v = Buffer(device, bytes);
  device.zero(m.data(), bytes);
  device.zero(v.data(), bytes);
  return [&, bytes, tensors = std::vector<AdamWTensor>()]() mutable {
    for (const nn::Parameter& p : params.parameters) ops.sum_squares(lone.gradients().at(p.region));
    optim::adamw_step(ops, tensors, params,
                      {lone.weights(), lone.gradients(), {m.data()}, {v.data()}, {}}, {},
                      {.rate = 1e-9, .t = 10}, 1, {0, bytes / 4});
    device.zero(lone.gradients().base, bytes);
  };
}

// As many blocks as the model has where caches could hold them, so that weights and activations
// come from where they will come from; two where not even one stays in a cache.
Index blocks_to_measure(const model::ModelConfig& model, Index B, Index T) {
  constexpr Index kBeyondCaches = Index{192} << 20;
  const model::Stage one(model, {1, 1, 1}, 1, B, T);
  const Index bytes = one.activation_layout().bytes() + one.parameters().layout.bytes();
  return std::min(model.n_layer, std::max<Index>(2, kBeyondCaches / bytes));
}

double seconds_of(const std::function<void()>& body, Index runs) {
  const Stopwatch watch;
  for (Index i = 0; i < runs; ++i) body();
  return watch.seconds() / static_cast<double>(runs);
}

// Of each body, in rounds in which every body has its turn. A turn is long against the clock.
std::vector<double> fastest_seconds(const std::vector<std::function<void()>>& bodies, int rounds) {
  constexpr double kTurn = 4e-3;
  std::vector<Index> runs;
  for (const auto& body : bodies) {
    body();  // warms caches, makes primitives
    runs.push_back(
        static_cast<Index>(std::clamp(kTurn / std::max(seconds_of(body, 1), 1e-9), 1.0, 1e6)));
  }
  std::vector<double> fastest(bodies.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < bodies.size(); ++i)
      fastest[i] = std::min(fastest[i], seconds_of(bodies[i], runs[i]));
  return fastest;
}

}  // namespace

plan::PieceTimes measure_model_parts(Communicator& comm, const model::ModelConfig& model, Index B,
                                     Index T, int rounds) {
  const std::unique_ptr<Device> device = make_host_device();
  const std::unique_ptr<Ops> ops = make_cpu_ops();
  const Index n = blocks_to_measure(model, B, T);
  const std::vector<Index> layers{1, n, 1};
  const auto lone = [&](int stage, bool split, nn::Recompute recompute) {
    return LoneStage(*device, *ops, model, layers, stage, B, T, split, recompute);
  };
  LoneStage split = lone(1, true, nn::Recompute::None), whole = lone(1, false, nn::Recompute::None),
            selective = lone(1, false, nn::Recompute::Selective),
            full = lone(1, false, nn::Recompute::Full), last = lone(2, true, nn::Recompute::None),
            first = lone(0, true, nn::Recompute::None);
  Buffer m, v, wte(*device, checked_mul(model.vocab_size * 4, model.n_embd)),
      wpe(*device, checked_mul(model.n_positions * 4, model.n_embd));
  device->zero(wte.data(), wte.bytes());
  device->zero(wpe.data(), wpe.bytes());
  const Tensor tokens(wte.data(), DType::F32, {model.vocab_size, model.n_embd}),
      positions(wpe.data(), DType::F32, {model.n_positions, model.n_embd});
  const nn::BufferView boundary = first.boundary();
  const Tensor x = first.stage().input(boundary), ids = first.stage().tokens(boundary);
  const Dropout dropout{.probability = static_cast<float>(model.embd_pdrop)};
  for (LoneStage* stage : {&split, &whole, &selective, &last}) stage->forward();
  full.recompute();
  const std::vector<std::function<void()>> bodies = {
      [&] { whole.forward(); },
      [&] { whole.backward(); },
      [&] { split.backward_input(); },
      [&] { split.backward_weight(); },
      [&] { selective.backward(); },
      [&] { full.recompute(); },
      [&] { last.forward(); },
      [&] { ops->embedding_forward(x, ids, tokens, positions, T, dropout); },
      [&] { ops->embedding_backward(tokens, positions, x, ids, T, dropout); },
      optimizer_body(*device, *ops, whole, m, v)};
  split.backward_input();  // what the weight half works on
  barrier(comm, 0, "the start of the measurement");
  const std::vector<double> t = fastest_seconds(bodies, rounds);
  barrier(comm, 0, "the end of the measurement");

  constexpr double kLeast = 1e-9;  // a difference may come out below nothing
  const double blocks = static_cast<double>(n), halves = t[1] / (t[2] + t[3]);
  plan::PieceTimes out;
  out.block_forward = t[0] / blocks;
  out.block_input = t[2] * halves / blocks;
  out.block_weight = t[3] * halves / blocks;
  out.block_selective = std::max(kLeast, (t[4] - t[1]) / blocks);
  out.block_refill = std::max(kLeast, t[5] - (blocks - 1) * out.block_forward);
  out.head = std::max(kLeast, t[6] - out.block_forward);
  out.embedding_forward = t[7];
  out.embedding_backward = t[8];
  out.optimizer = 4 * t[9] / static_cast<double>(whole.stage().parameters().layout.bytes());
  return out;
}

plan::Calibration this_machine() {
  plan::Calibration c;
  std::ifstream processor("/proc/cpuinfo");
  for (std::string line; std::getline(processor, line);)
    if (line.starts_with("model name")) {
      c.machine = line.substr(line.find(':') + 2);
      break;
    }
  if (c.machine.empty()) c.machine = "a processor without a name";
  c.cores = available_cores();
  c.machine += concat(", ", c.cores, c.cores == 1 ? " core" : " cores");
  c.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return c;
}

}  // namespace chimera::bench
