#pragma once
// One stage with memory of its own: weights as trained, a boundary buffer, a buffer, accumulators.
// What a contract calls undefined is filled with NaN, so that whoever reads it spoils the results.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "chimera/base/rng.h"
#include "chimera/device/device.h"
#include "chimera/model/stage.h"
#include "chimera/ops/half_ops.h"
#include "chimera/tensor/half.h"

namespace chimera {

// For comparisons bit by bit: 0 and -0 differ, a NaN equals itself.
inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> out(values.size());
  std::memcpy(out.data(), values.data(), values.size() * sizeof(float));
  return out;
}

struct StageCase {
  std::vector<Index> layers;
  int stage = 0;
  bool tied = true, split = false;
  nn::Recompute recompute = nn::Recompute::None;
  DType type = DType::F32;
};

// A stage that is first and last, one of each, and one between.
inline std::vector<StageCase> stage_cases() {
  return {{{3}, 0}, {{1, 2}, 0}, {{1, 2}, 1}, {{1, 1, 1}, 1}};
}

class StageBench {
 public:
  static constexpr Index kSamples = 3, kT = 5;

  static model::ModelConfig config(bool tied) {
    model::ModelConfig m;
    m.n_layer = 3, m.n_head = 2, m.n_embd = 12, m.n_positions = 8, m.vocab_size = 23;
    m.embd_pdrop = m.attn_pdrop = m.resid_pdrop = 0.2;
    m.tied_embeddings = tied;
    return m;
  }

  explicit StageBench(const StageCase& c)
      : case_(c),
        config_(config(c.tied)),
        tied_layout_(model::tied_parameters(config_)),
        stage_(config_, c.layers, c.stage, kSamples, kT, c.split, c.recompute, c.type),
        weights_(normal(stage_.parameters().layout.bytes(), 1)),
        gradients_(filled(stage_.parameters().layout.bytes(), 0)),
        tied_weights_(normal(tied_layout_.layout.bytes(), 2)),
        tied_embedding_(filled(tied_layout_.layout.bytes(), 0)),
        tied_head_(filled(tied_layout_.layout.bytes(), 0)),
        boundary_(filled(stage_.boundary_layout().bytes(), kNaN)),
        activations_(filled(stage_.activation_layout().bytes(), kNaN)),
        workspace_(filled(stage_.workspace_layout().bytes(), kNaN)) {
    const nn::BufferView all = boundary(0, kSamples);
    for (Index i = 0; i < kSamples * kT; ++i) {
      stage_.tokens(all).i32()[i] = static_cast<std::int32_t>((i * 7) % config_.vocab_size);
      stage_.targets(all).i32()[i] = static_cast<std::int32_t>((i * 11 + 3) % config_.vocab_size);
    }
    if (!stage_.first()) fill(stage_.input(all), 0, 1, 5, 5);
  }

  const model::Stage& stage() const { return stage_; }
  const nn::ParameterLayout& tied_parameters() const { return tied_layout_; }
  nn::BufferView boundary(Index first, Index samples) const {
    return {Flat{boundary_.data()}, first, samples, kT};
  }

  // Becomes the fp32 of another's numbers.
  void take_weights_and_input(const StageBench& other) {
    const auto take = [](Buffer& to, const Buffer& from, DType type) {
      const Tensor source(from.data(), type, {from.bytes() / 4});
      widen(reinterpret_cast<float*>(to.data()), source);
    };
    take(weights_, other.weights_, other.case_.type);
    take(tied_weights_, other.tied_weights_, other.case_.type);
    const nn::BufferView mine = boundary(0, kSamples), theirs = other.boundary(0, kSamples);
    if (!stage_.first()) widen(stage_.input(mine).f32(), other.stage_.input(theirs));
  }

  // Every instruction finds a workspace without meaning.
  nn::Pass pass(Index first, Index samples) {
    poison(workspace_);
    return {.ops = *ops_,
            .weights = Flat{weights_.data(), case_.type},
            .gradients = Flat{gradients_.data()},
            .tied_weights = Flat{tied_weights_.data(), case_.type},
            .tied_embedding_gradients = Flat{tied_embedding_.data()},
            .tied_head_gradients = Flat{tied_head_.data()},
            .boundary = boundary(first, samples),
            .activations = {Flat{activations_.data()}, first, samples, kT},
            .workspace = Flat{workspace_.data()},
            .dropout_seed = 9,
            .first_sample = 100 + first,
            .loss_scale = 0.1f};
  }
  void forward(Index first, Index samples) {
    nn::Pass p = pass(first, samples);
    stage_.forward(p, 0.1f);
  }
  // The gradient that a later stage would send.
  void set_output_gradient() {
    if (stage_.last()) return;  // the head has set it
    fill(stage_.gradient(boundary(0, kSamples)), 0, 1, 6, 6);
  }
  // All instructions of a backward; with full recomputation of these samples before it. `halves`:
  // which of a split one.
  enum Halves { kInput = 1, kWeight = 2, kBoth = 3 };
  void backward(Index first, Index samples, Halves halves = kBoth) {
    if (case_.recompute == nn::Recompute::Full && (halves & kInput) != 0) {
      nn::Pass p = pass(first, samples);
      stage_.recompute(p);
    }
    nn::Pass p = pass(first, samples);
    if (!case_.split) return stage_.backward(p);
    if ((halves & kInput) != 0) stage_.backward_input(p);
    poison(workspace_);
    if ((halves & kWeight) != 0) stage_.backward_weight(p);
  }
  // Between the forward and the backward a buffer belongs to others under full recomputation.
  void lose_activations() {
    if (case_.recompute == nn::Recompute::Full) poison(activations_);
  }

  // Everything that leaves the stage: losses, gradients of the weights and of the stage's input.
  std::vector<float> results() const {
    std::vector<float> out;
    const auto append = [&](const Tensor& t) {
      out.resize(out.size() + static_cast<std::size_t>(t.size()));
      widen(out.data() + out.size() - t.size(), t);
    };
    for (const Buffer* b : {&gradients_, &tied_embedding_, &tied_head_})
      append(Tensor(b->data(), DType::F32, {b->bytes() / 4}));
    if (!stage_.first()) append(stage_.gradient(boundary(0, kSamples)));
    if (stage_.last()) append(stage_.losses(boundary(0, kSamples)));
    return out;
  }

 private:
  static constexpr int kNaN = 0xff;  // every byte of a NaN
  static void poison(Buffer& b) {
    std::memset(b.data(), kNaN, static_cast<std::size_t>(b.bytes()));
  }
  Buffer filled(Index bytes, int byte) {
    Buffer b(*device_, bytes);
    std::memset(b.data(), byte, static_cast<std::size_t>(bytes));
    return b;
  }
  Buffer normal(Index bytes, std::uint64_t stream) {
    Buffer b(*device_, bytes);
    fill(Tensor(b.data(), case_.type, {bytes / 4}), 0.05f, 0.2f, 3, stream);
    return b;
  }
  static void fill(const Tensor& out, float mean, float deviation, std::uint64_t seed,
                   std::uint64_t stream) {
    std::vector<float> numbers(static_cast<std::size_t>(out.size()));
    fill_normal(numbers.data(), out.size(), 0, mean, deviation, seed, stream);
    round_into(out, numbers.data());
  }

  StageCase case_;
  model::ModelConfig config_;
  std::unique_ptr<Device> device_ = make_host_device();
  std::unique_ptr<Ops> ops_ = make_half_ops(make_cpu_ops());
  nn::ParameterLayout tied_layout_;
  model::Stage stage_;
  Buffer weights_, gradients_, tied_weights_, tied_embedding_, tied_head_, boundary_, activations_,
      workspace_;
};

}  // namespace chimera
