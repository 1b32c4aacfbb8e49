// Construction of a worker: what it holds and where.
#include "chimera/runtime/worker.h"

#include <algorithm>

#include "chimera/tensor/half.h"
#include "step_state.h"

namespace chimera {
namespace {

using schedule::Group;
using schedule::Holder;
using schedule::Op;
using schedule::Schedule;

}  // namespace

Worker::Worker(const Config& config, const Programs& programs, Communicator& comm,
               std::function<bool()> stop_requested, Backend backend)
    : config_(config),
      programs_(programs),
      comm_(comm),
      stop_requested_(std::move(stop_requested)),
      backend_(std::move(backend)),
      tensors_(backend_.tensors ? *backend_.tensors : comm),
      replica_(comm.rank() / programs.train.depth),
      worker_(comm.rank() % programs.train.depth),
      T_(config.sequence_length()),
      sharded_(programs.train.has(Op::ReduceScatterStart)),
      split_(programs.train.has(Op::BackwardWeight)) {
  const Schedule& plan = programs.train;
  const plan::Shape shape = shape_of(config);
  const auto stages = plan::all_stage_bytes(shape, plan);
  footprint_ = plan::worker_footprint(stages, plan, &programs.evaluation, replica_, worker_);
  workspace_ = Buffer(device(), footprint_.workspace);
  reduction_scratch_ = Buffer(device(), footprint_.reductions);
  losses_ = Buffer(device(), footprint_.losses);
  buffers_ =
      BufferPool(device(), {footprint_.boundary_buffers, footprint_.boundary_buffer_bytes},
                 {footprint_.activation_buffers, footprint_.activation_buffer_bytes}, plan.span());
  if (comm.size() > 1) background_.emplace(tensors_.second_endpoint());
  for (const plan::StageStateBytes& bytes : footprint_.held) {
    const Group& group = plan.groups.at(static_cast<std::size_t>(bytes.stage));
    hold(group, bytes, stages.at(static_cast<std::size_t>(bytes.stage)).parameters);
    if (bytes.stage < plan.stages())
      stages_.try_emplace(bytes.stage, config.model, shape.layers, bytes.stage,
                          shape.samples * plan.span(), T_, split_, shape.recompute, shape.type);
  }
  name_parameters(shape);
  if (shape.type == DType::F16)
    loss_scale_ = optim::LossScale::parse(config.precision.loss_scale).value();
  tokens_.resize(static_cast<std::size_t>(2 * shape.samples * plan.span() * T_));
  Communicator& sums = background_ ? background_->endpoint().host() : comm_;
  for (int i = 0; i < plan.lag() + 2; ++i) {
    states_.push_back({.place = i, .sync = StepSync(sums)});
    states_.back().sync.values.resize(parameter_names_.size() +
                                      static_cast<std::size_t>(config.batch()) + 2);
    states_.back().what.reserve(64);
  }
}

Worker::~Worker() = default;

void Worker::hold(const Group& group, const plan::StageStateBytes& bytes,
                  nn::ParameterLayout params) {
  for (nn::Parameter& p : params.parameters)
    p.frozen = p.frozen || p.depth < config_.train.freeze_below;
  const bool counts = replica_ == 0 && group.holders.front().worker == worker_;
  const bool sharded = sharded_ && bytes.members > 1;
  const auto [it, fresh] = held_.try_emplace(bytes.stage, device(), group, bytes, std::move(params),
                                             worker_, counts, sharded);
  if (bytes.contributions < 2) return;
  std::vector<int> contributors;
  for (int replica = 0; replica < programs_.train.width; ++replica)
    for (const Holder& holder : group.holders)
      contributors.push_back(replica * programs_.train.depth + holder.worker);
  it->second.join(background_ ? background_->endpoint() : tensors_, std::move(contributors),
                  reinterpret_cast<float*>(reduction_scratch_.data()));
}

void Worker::name_parameters(const plan::Shape& shape) {
  const Schedule& plan = programs_.train;
  for (int s = 0; s < plan.stages(); ++s) {
    const model::Stage stage(config_.model, shape.layers, s, 1, 1);
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
}

void Worker::begin_at(Index step) {
  for (auto& [id, held] : held_) held.begin_at(step);
  versions_known_ = false;
}

}  // namespace chimera
