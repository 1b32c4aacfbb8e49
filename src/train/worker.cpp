// Construction of a worker: what it holds and where.
#include "chimera/train/worker.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/rng.h"
#include "chimera/schedule/build.h"

namespace chimera::train {
namespace {

using schedule::Group;
using schedule::Holder;
using schedule::Schedule;

constexpr int kReductionChannel = 96;

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

void fill_initial(const nn::Parameter& p, Tensor weight, std::uint64_t seed) {
  float* out = weight.f32();
  switch (p.init) {
    case nn::Init::Zeros: return std::fill_n(out, weight.size(), 0.0f), void();
    case nn::Init::Ones: return std::fill_n(out, weight.size(), 1.0f), void();
    case nn::Init::Sinusoidal: return fill_sinusoidal(weight);
    case nn::Init::Normal:
      // The stream is the parameter's place in the model, so no layout changes the initial weights.
      return fill_normal(out, weight.size(), 0, 0.0f, p.deviation, seed,
                         static_cast<std::uint64_t>(p.order));
  }
}

}  // namespace

std::vector<Index> stage_layers(const Config& config) {
  return config.parallel.stage_layers.empty()
             ? model::even_stage_layers(config.model.n_layer, config.parallel.depth)
             : config.parallel.stage_layers;
}

Programs build_programs(const Config& config) {
  const ParallelConfig& p = config.parallel;
  schedule::Request request;
  request.schedule = p.schedule;
  request.depth = narrow<int>(p.depth);
  request.micro_batches = narrow<int>(p.micro_batches);
  request.pipeline_pairs = narrow<int>(p.pipeline_pairs);
  request.width = narrow<int>(p.width);
  request.tied = config.model.tied_embeddings;
  Programs programs;
  programs.train = schedule::build_schedule(request);
  programs.evaluation = schedule::build_evaluation(programs.train, request.micro_batches);
  return programs;
}

Worker::Worker(const Config& config, const Programs& programs, Communicator& comm,
               std::function<bool()> stop_requested, std::unique_ptr<Ops> ops,
               std::unique_ptr<Device> device)
    : config_(config),
      programs_(programs),
      comm_(comm),
      stop_requested_(std::move(stop_requested)),
      device_(std::move(device)),
      ops_(std::move(ops)),
      replica_(comm.rank() / programs.train.depth),
      worker_(comm.rank() % programs.train.depth),
      T_(config.sequence_length()) {
  const Schedule& plan = programs.train;
  const std::vector<Index> layers = stage_layers(config);
  const Index samples = config.parallel.micro_batch_size;
  Index workspace = 0;
  std::vector<int> mine;
  for (const std::vector<int>& stage_to_worker : plan.placement)
    for (int s = 0; s < plan.stages(); ++s)
      if (stage_to_worker[static_cast<std::size_t>(s)] == worker_) mine.push_back(s);
  for (const int s : mine) {
    const auto [it, fresh] = stages_.try_emplace(s, config.model, layers, s, samples, T_);
    if (!fresh) continue;
    const model::Stage& stage = it->second;
    slot_bytes_ = std::max(slot_bytes_, stage.slot_layout().bytes());
    workspace = std::max(workspace, stage.workspace_layout().bytes());
    hold(s, plan.groups.at(static_cast<std::size_t>(s)), stage.parameters());
  }
  if (plan.tied) {
    const Group& group = plan.groups.back();
    if (std::ranges::any_of(group.holders, [&](const Holder& h) { return h.worker == worker_; }))
      hold(plan.stages(), group, model::tied_parameters(config.model));
  }
  for (int s = 0; s < plan.stages(); ++s) {
    const model::Stage stage(config.model, layers, s, samples, T_);
    for (const nn::Parameter& p : stage.parameters().parameters) {
      parameter_names_.resize(
          std::max(parameter_names_.size(), static_cast<std::size_t>(p.order) + 1));
      parameter_names_[static_cast<std::size_t>(p.order)] = p.name;
      parameter_stages_.resize(parameter_names_.size());
      parameter_stages_[static_cast<std::size_t>(p.order)] = s;
    }
  }
  parameter_names_[0] = "transformer.wte.weight";
  parameter_stages_[0] = plan.tied ? plan.stages() : 0;

  const auto w = static_cast<std::size_t>(worker_);
  slot_count_ = std::max(plan.slots[w], programs.evaluation.slots[w]);
  slots_ = Buffer(*device_, checked_mul(slot_bytes_, slot_count_));
  workspace_ = Buffer(*device_, workspace);
  Index scratch = 0;
  for (const auto& [id, held] : held_)
    if (held.reduction) scratch = std::max(scratch, held.reduction->scratch_elements());
  reduction_scratch_ = Buffer(*device_, scratch * size_of(DType::F32));
  slot_first_micro_.resize(static_cast<std::size_t>(slot_count_));
  requests_.resize(static_cast<std::size_t>(slot_count_));
  sample_losses_.resize(static_cast<std::size_t>(config.batch()));
}

void Worker::hold(int id, const Group& group, nn::ParameterLayout params) {
  HeldStage held;
  held.id = id;
  for (nn::Parameter& p : params.parameters)
    p.frozen = p.frozen || p.depth < config_.train.freeze_below;
  const Index bytes = params.layout.bytes();
  for (Buffer* buffer : {&held.weights, &held.m, &held.v}) {
    *buffer = Buffer(*device_, bytes);
    device_->zero(buffer->data(), bytes);  // the padding between tensors is summed and read, too
  }
  for (const Holder& holder : group.holders)
    if (holder.worker == worker_)
      held.accumulators.push_back({holder.pipe, holder.use, Buffer(*device_, bytes)});
  held.counts = replica_ == 0 && group.holders.front().worker == worker_;
  std::vector<int> contributors;
  for (int replica = 0; replica < static_cast<int>(config_.parallel.width); ++replica)
    for (const Holder& holder : group.holders)
      contributors.push_back(replica * programs_.train.depth + holder.worker);
  if (contributors.size() > 1)
    held.reduction.emplace(comm_, kReductionChannel, contributors, bytes / size_of(DType::F32));
  held.params = std::move(params);
  held_.emplace(id, std::move(held));
}

void Worker::initialize_weights() {
  for_each_parameter([&](const Entry& entry) {
    fill_initial(entry.parameter, entry.weight, static_cast<std::uint64_t>(config_.train.seed));
  });
}

void Worker::for_each_parameter(const std::function<void(const Entry&)>& visit) {
  for (auto& [id, held] : held_) {
    const Flat weights{held.weights.data()}, m{held.m.data()}, v{held.v.data()};
    const Flat gradients{held.accumulators.front().sums.data()};
    for (const nn::Parameter& p : held.params.parameters)
      visit({p, weights.at(p.region), m.at(p.region), v.at(p.region), gradients.at(p.region),
             held.counts});
  }
}

std::vector<MemoryItem> Worker::memory() const {
  Index weights = 0, moments = 0, gradients = 0;
  for (const auto& [id, held] : held_) {
    weights += held.weights.bytes();
    moments += held.m.bytes() + held.v.bytes();
    for (const HeldStage::Accumulator& a : held.accumulators) gradients += a.sums.bytes();
  }
  return {{"parameters", "weights", weights},
          {"parameters", "gradients", gradients},
          {"parameters", "Adam moments", moments},
          {"slots", concat(slot_count_, " slots of ", slot_bytes_), slots_.bytes()},
          {"workspace", "layers", workspace_.bytes()},
          {"workspace", "reductions", reduction_scratch_.bytes()}};
}

}  // namespace chimera::train
