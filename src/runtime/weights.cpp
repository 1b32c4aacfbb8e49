// A worker's parameters from outside: initial values, loading, looking at them.
#include <algorithm>
#include <cmath>

#include "chimera/base/rng.h"
#include "chimera/base/threads.h"
#include "chimera/ops/stochastic.h"
#include "chimera/runtime/worker.h"
#include "chimera/tensor/half.h"
#include "chimera/tensor/host_copy.h"

namespace chimera {
namespace {

void fill_sinusoidal(Tensor table) {
  const Index P = table.dim(0), C = table.dim(1);
  float* out = table.f32();
  for (Index t = 0; t < P; ++t)
    for (Index c = 0; c < C; ++c) {  // Vaswani et al. 2017, section 3.5
      const double rate =
          std::pow(10000.0, -static_cast<double>(c / 2 * 2) / static_cast<double>(C));
      const double angle = static_cast<double>(t) * rate;
      out[t * C + c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
}

constexpr Index kNormalsOfAThread = 4096;  // long against waking a team

void fill_initial(const nn::Parameter& p, Tensor weight, std::uint64_t seed) {
  float* out = weight.f32();
  switch (p.init) {
    case nn::Init::Zeros: return std::fill_n(out, weight.size(), 0.0f), void();
    case nn::Init::Ones: return std::fill_n(out, weight.size(), 1.0f), void();
    case nn::Init::Sinusoidal: return fill_sinusoidal(weight);
    case nn::Init::Normal:
      // The stream is the parameter's place in the model, so no layout changes the initial weights.
      return parallel_for(weight.size(), kNormalsOfAThread, [&](Index begin, Index end) {
        fill_normal(out + begin, end - begin, begin, 0.0f, p.deviation, seed,
                    static_cast<std::uint64_t>(p.order));
      });
  }
}

// As ops.h says of AdamW: step t of parameter `order`, elements from the first on.
void round_stochastically(const Tensor& out, std::span<const float> values, std::uint64_t seed,
                          Index t, Index order) {
  auto* into = static_cast<std::uint16_t*>(out.raw());
  PhiloxBlock words{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 4 == 0) words = rounding_words(seed, t, order, static_cast<Index>(i / 4));
    into[i] = out.type() == DType::BF16 ? stochastic_bf16(values[i], words[i % 4])
                                        : stochastic_f16(values[i], words[i % 4]);
  }
}

}  // namespace

void Worker::initialize_weights() {
  std::vector<float> values;
  for_each_parameter([&](const Entry& entry) {
    const Region& region = entry.parameter.region;
    values.resize(static_cast<std::size_t>(region.size()));
    Region whole = region;
    whole.offset = 0;
    fill_initial(entry.parameter, Flat{reinterpret_cast<std::byte*>(values.data())}.at(whole),
                 static_cast<std::uint64_t>(config_.train.seed));
    set_weight(entry, values);
  });
}

void Worker::set_weight(const Entry& e, std::span<const float> values) {
  ENSURE(std::ssize(values) == e.weight.size(), e.parameter.name, " is set to ", values.size(),
         " numbers; it has ", e.weight.size());
  if (e.weight.type() == DType::F32)
    return device().copy_in(e.weight.raw(), values.data(), e.weight.bytes());
  if (e.range.count > 0)
    device().copy_in(e.master.raw(), values.data() + e.range.first, e.master.bytes());
  // What the last update's rounding made of these values; before any, and of what none changes, the
  // nearest.
  const Index t = held_.begin()->second.newest() - loss_scale_.skipped();
  HostCopy weight(device(), e.weight);
  if (config_.precision.stochastic_rounding && t > 0 && !e.parameter.frozen)
    round_stochastically(weight.here(), values, static_cast<std::uint64_t>(config_.train.seed), t,
                         e.parameter.order);
  else
    round_into(weight.here(), values.data());
  weight.store();
}

void Worker::for_each_parameter(const std::function<void(const Entry&)>& visit) {
  for (auto& [id, stage] : held_) {
    StageState& held = stage;
    for (const nn::Parameter& p : held.params().parameters) {
      const optim::ShardRange range = optim::range_in_shard(p, held.shard());
      const auto moment = [&](Flat flat) {
        if (!held.sharded()) return flat.at(p.region);
        const Index offset =
            p.region.offset + (range.first - held.shard().first) * size_of(DType::F32);
        return Tensor(flat.base + offset, DType::F32, {range.count});
      };
      visit({p, held.weights(held.newest()).at(p.region), moment(held.m()), moment(held.v()),
             held.has_master() ? moment(held.master()) : Tensor(), range, held.sum().at(p.region),
             held.counts(), held.versions(),
             [&held, &p](Index back) { return held.weights(held.newest() - back).at(p.region); }});
    }
  }
}

}  // namespace chimera
