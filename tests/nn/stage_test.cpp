// A stage on its own: slots that span several samples, and the backward in two halves.
#include "chimera/model/stage.h"

#include <cmath>
#include <cstring>

#include "chimera/base/rng.h"
#include "chimera/device/device.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::model;

namespace {

constexpr Index kSamples = 2, kT = 5;

ModelConfig tiny() {
  ModelConfig m;
  m.n_layer = 3, m.n_head = 2, m.n_embd = 12, m.n_positions = 8, m.vocab_size = 23;
  m.embd_pdrop = m.attn_pdrop = m.resid_pdrop = 0.2;
  return m;
}

// One stage with memory of its own: weights as trained, a slot, accumulators.
class Bench {
 public:
  Bench(const std::vector<Index>& layers, int stage, bool split)
      : config_(tiny()),
        tied_layout_(tied_parameters(config_)),
        stage_(config_, layers, stage, kSamples, kT, split),
        weights_(filled(stage_.parameters().layout.bytes(), 1)),
        gradients_(zeroed(stage_.parameters().layout.bytes())),
        tied_weights_(filled(tied_layout_.layout.bytes(), 2)),
        tied_embedding_(zeroed(tied_layout_.layout.bytes())),
        tied_head_(zeroed(tied_layout_.layout.bytes())),
        slot_(zeroed(stage_.slot_layout().bytes())),
        workspace_(zeroed(stage_.workspace_layout().bytes())) {
    const nn::SlotView all = view(0, kSamples);
    for (Index i = 0; i < kSamples * kT; ++i) {
      stage_.tokens(all).i32()[i] = static_cast<std::int32_t>((i * 7) % config_.vocab_size);
      stage_.targets(all).i32()[i] = static_cast<std::int32_t>((i * 11 + 3) % config_.vocab_size);
    }
    if (!stage_.first())
      fill_normal(stage_.input(all).f32(), stage_.input(all).size(), 0, 0, 1, 5, 5);
  }

  nn::SlotView view(Index first, Index samples) const {
    return {Flat{slot_.data()}, first, samples, kT};
  }
  Pass pass(Index first, Index samples) {
    return {.ops = *ops_,
            .weights = Flat{weights_.data()},
            .gradients = Flat{gradients_.data()},
            .tied_weights = Flat{tied_weights_.data()},
            .tied_embedding_gradients = Flat{tied_embedding_.data()},
            .tied_head_gradients = Flat{tied_head_.data()},
            .slot = view(first, samples),
            .workspace = Flat{workspace_.data()},
            .dropout_seed = 9,
            .first_sample = 100 + first,
            .loss_scale = 0.1f};
  }
  void set_output_gradient() {
    if (stage_.last()) return;  // the head has set it
    const Tensor g = stage_.gradient(view(0, kSamples));
    fill_normal(g.f32(), g.size(), 0, 0, 1, 6, 6);
  }
  const Stage& stage() const { return stage_; }
  // Everything a step leaves: gradients of the weights and of the stage's input.
  std::vector<float> results() const {
    std::vector<float> out;
    for (const Buffer* b : {&gradients_, &tied_embedding_, &tied_head_}) {
      const auto* values = reinterpret_cast<const float*>(b->data());
      out.insert(out.end(), values, values + b->bytes() / 4);
    }
    const Tensor g = stage_.gradient(view(0, kSamples));
    if (!stage_.first()) out.insert(out.end(), g.f32(), g.f32() + g.size());
    return out;
  }

 private:
  Buffer zeroed(Index bytes) {
    Buffer b(*device_, bytes);
    std::memset(b.data(), 0, static_cast<std::size_t>(bytes));
    return b;
  }
  Buffer filled(Index bytes, std::uint64_t stream) {
    Buffer b(*device_, bytes);
    fill_normal(reinterpret_cast<float*>(b.data()), bytes / 4, 0, 0.05f, 0.2f, 3, stream);
    return b;
  }

  ModelConfig config_;
  std::unique_ptr<Device> device_ = make_host_device();
  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  nn::ParameterLayout tied_layout_;
  Stage stage_;
  Buffer weights_, gradients_, tied_weights_, tied_embedding_, tied_head_, slot_, workspace_;
};

const std::vector<std::pair<std::vector<Index>, int>> kStages = {
    {{3}, 0}, {{1, 2}, 0}, {{1, 2}, 1}, {{1, 1, 1}, 1}};

}  // namespace

TEST_CASE("input and weight gradients apart equal the whole backward bitwise") {
  for (const auto& [layers, index] : kStages) {
    Bench whole(layers, index, false), split(layers, index, true);
    for (Bench* b : {&whole, &split}) {
      Pass pass = b->pass(0, kSamples);
      b->stage().forward(pass, 0.1f);
      b->set_output_gradient();
    }
    Pass a = whole.pass(0, kSamples), b = split.pass(0, kSamples);
    whole.stage().backward(a);
    split.stage().backward_input(b);
    split.stage().backward_weight(b);
    CHECK(whole.results() == split.results());
    CHECK_THROWS_AS(whole.stage().backward_input(a), Error);
    CHECK_THROWS_AS(split.stage().backward(b), Error);
  }
}

// What forward doubling and backward halving rely on. Sums over rows change their grouping, so
// equal to rounding.
TEST_CASE("two samples in one pass equal one after the other, dropout included") {
  for (const auto& [layers, index] : kStages) {
    Bench together(layers, index, false), apart(layers, index, false);
    Pass both = together.pass(0, kSamples);
    together.stage().forward(both, 0.0f);
    for (Index s = 0; s < kSamples; ++s) {
      Pass one = apart.pass(s, 1);
      apart.stage().forward(one, 0.0f);
    }
    together.set_output_gradient();
    apart.set_output_gradient();
    together.stage().backward(both);
    for (Index s = 0; s < kSamples; ++s) {
      Pass one = apart.pass(s, 1);
      apart.stage().backward(one);
    }
    const std::vector<float> x = together.results(), y = apart.results();
    REQUIRE(x.size() == y.size());
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += std::pow(static_cast<double>(x[i] - y[i]), 2);
      size += std::pow(static_cast<double>(x[i]), 2);
    }
    CHECK(std::sqrt(difference / size) < 1e-6);  // a few fp32 roundings
    CHECK(size > 0);
  }
}

TEST_CASE("stage layers: as even as possible, the rest in the middle, never fewer than one") {
  CHECK(even_stage_layers(8, 4) == std::vector<Index>{2, 2, 2, 2});
  CHECK(even_stage_layers(10, 4) == std::vector<Index>{2, 3, 3, 2});
  CHECK(even_stage_layers(5, 5) == std::vector<Index>{1, 1, 1, 1, 1});
  CHECK_THROWS_AS(even_stage_layers(3, 4), Error);
}
