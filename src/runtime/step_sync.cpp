// The end of a step: the one global decision, and the optimizer.
#include <algorithm>
#include <cmath>

#include "chimera/optim/optimizer.h"
#include "chimera/runtime/worker.h"
#include "step_state.h"

namespace chimera {
namespace {

using schedule::Instr;
using schedule::Op;

constexpr int kStepSyncChannel = 97, kNormChannel = 101;

}  // namespace

void Worker::StepSync::run(std::string_view what) {
  sum_over_ranks(*comm_, kStepSyncChannel, values, what);
}

void Worker::begin_step(Index step) {
  StepState& state = states_[static_cast<std::size_t>(step % std::ssize(states_))];
  state.step = step;
  state.result = {};
  state.result.learning_rate = optim::learning_rate(
      step, config_.train.steps, config_.optimizer.learning_rate, config_.lr_schedule);
  state.result.loss_scale = loss_scale_.value();
  state.clip = 1;
  const Tensor losses = losses_of(state);
  device().zero(losses.raw(), losses.bytes());
  std::ranges::fill(state.sync.values, 0.0);
}

// By position in the batch; zero where another worker computes it.
Tensor Worker::losses_of(const StepState& state) const {
  const Index batch = config_.batch(), bytes = batch * size_of(DType::F64);
  return {losses_.data() + state.place * bytes, DType::F64, {batch}};
}

void Worker::read_losses(const StepState& state, std::span<double> into) {
  const Tensor losses = losses_of(state);
  device().copy_out(into.data(), losses.raw(), losses.bytes());
}

Worker::StepState& Worker::state_of(Index step) {
  StepState& state = states_[static_cast<std::size_t>(step % std::ssize(states_))];
  if (state.step != step) begin_step(step);
  return state;
}

// The squares of one stage: of a sharded one by GradNorm; of others, which need no messages, right
// before the step's synchronisation, or where no barrier comes before the update, within it.
void Worker::sum_squares(StageState& held, StepState& state, std::string_view what) {
  held.sum_squares(ops(), comm_, kNormChannel, state.step, state.sync.values, what);
}

void Worker::step_sync_start(StepState& state) {
  std::vector<double>& values = state.sync.values;
  const std::size_t tensors = parameter_names_.size(),
                    batch = static_cast<std::size_t>(config_.batch());
  if (programs_.train.period == 0)
    for (auto& [id, held] : held_)
      if (!held.sharded()) sum_squares(held, state, "no message");
  read_losses(state, std::span(values).subspan(tensors, batch));
  values[tensors + batch] = stop_requested_() ? 1 : 0;
  values[tensors + batch + 1] = state.result.data_seconds / static_cast<double>(comm_.size());
  state.what = "the synchronisation of step ";
  state.what += std::to_string(state.step + 1);
  if (background_)
    state.ticket = background_->start(state.sync, state.what);
  else
    state.sync.run(state.what);
}

void Worker::step_sync_wait(Execution& run, StepState& state) {
  if (background_) run.background = background_->wait(std::exchange(state.ticket, 0));
  const std::vector<double>& values = state.sync.values;
  const std::size_t tensors = parameter_names_.size(),
                    batch = static_cast<std::size_t>(config_.batch());
  double squares = 0, loss = 0;
  for (std::size_t i = 0; i < tensors; ++i) squares += values[i];
  for (std::size_t i = 0; i < batch; ++i) loss += values[tensors + i];
  state.result.loss = loss / static_cast<double>(config_.batch() * T_);
  state.result.grad_norm = std::sqrt(squares) / state.result.loss_scale;
  state.result.stop = values[tensors + batch] > 0;
  state.result.data_seconds = values[tensors + batch + 1];
  state.result.skipped = !std::isfinite(squares) && loss_scale_.can_skip();
  if (!std::isfinite(state.result.loss) || (!std::isfinite(squares) && !state.result.skipped))
    reject_non_finite(state);
  if (state.result.skipped)
    loss_scale_.skip();
  else
    loss_scale_.good_step();
  state.clip = optim::clip_factor(state.result.grad_norm, config_.optimizer.grad_clip);
  // Every worker is at this place of this iteration: steps that have begun are finished.
  if (run.done && run.done(state.step, state.result))
    run.last = std::min(run.last, run.iteration + 1);
}

void Worker::update(const Instr& in, Execution& run) {
  if (compute_override_) compute_override_(in);
  StageState& held = held_.at(in.stage);
  StepState& state = state_of(run.step(in));
  if (programs_.train.period > 0) sum_squares(held, state, "no message");
  if (state.result.skipped) return held.skip_update(state.step);
  held.update(ops(), config_.optimizer,
              {.rate = state.result.learning_rate,
               .grad_scale = state.clip / state.result.loss_scale,
               .t = state.step + 1 - loss_scale_.skipped(),
               .stochastic = config_.precision.stochastic_rounding,
               .seed = static_cast<std::uint64_t>(config_.train.seed)},
              state.step, config_.model.n_layer);
}

void Worker::reject_non_finite(const StepState& state) const {
  const std::vector<double>& values = state.sync.values;
  const std::size_t tensors = parameter_names_.size();
  const std::string way_out = concat(
      state.result.loss_scale > 1 ? concat(" at a loss scale of ", state.result.loss_scale,
                                           " (precision.loss_scale \"dynamic\" finds one)")
                                  : "",
      programs_.train.period == 0 ? "; no worker applied the step."
                                  : "; the step is in the weights, so the job ends and "
                                    "nothing is saved.",
      " Lower optimizer.learning_rate or raise lr_schedule.warmup_steps, and resume from the "
      "last checkpoint");
  for (std::size_t i = tensors; i < tensors + static_cast<std::size_t>(config_.batch()); ++i) {
    if (std::isfinite(values[i])) continue;
    const Index position = static_cast<Index>(i - tensors),
                per_replica = config_.batch() / config_.parallel.width;
    const Index micro = position % per_replica / config_.parallel.micro_batch_size;
    const int last = programs_.train.stages() - 1;
    Fail("step ", state.step + 1, ": the loss is not finite (", values[i],
         ") first in micro-batch ", micro, " of replica ", position / per_replica, ", at stage ",
         last, " on worker ",
         position / per_replica * programs_.train.depth + host_of_forward(last, micro),
         ", global sample ", sample_origin_ + state.step * config_.batch() + position, way_out);
  }
  for (std::size_t i = 0; i < tensors; ++i)
    if (!std::isfinite(values[i]))
      Fail("step ", state.step + 1, ": the gradient of ", parameter_names_[i], ", stage ",
           parameter_stages_[i], " (first held by worker ",
           programs_.train.groups[static_cast<std::size_t>(parameter_stages_[i])]
               .holders.front()
               .worker,
           "), is not finite", way_out);
  Fail("step ", state.step + 1, ": the gradient norm overflows", way_out);
}

// The worker (within a replica) that runs the forward of a micro-batch at a stage.
int Worker::host_of_forward(int stage, Index micro) const {
  for (std::size_t w = 0; w < programs_.train.programs.size(); ++w)
    for (const Instr& in : programs_.train.programs[w].body)
      if (in.op == Op::Forward && in.stage == stage && in.micro <= micro &&
          micro < in.micro + in.count)
        return static_cast<int>(w);
  Fail("no worker runs micro-batch ", micro, " at stage ", stage);
}

}  // namespace chimera
