// The executor: one switch over the instruction's operation.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "chimera/optim/optimizer.h"
#include "chimera/train/worker.h"

namespace chimera::train {
namespace {

using schedule::Instr;
using schedule::Message;
using schedule::Op;

constexpr int kEvaluationChannels = 48;  // training uses channel `pipe`, evaluation this + pipe
constexpr int kVerdictChannel = 97;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct Worker::Execution {
  nn::Mode mode;
  Index step;  // of training; of evaluation the batch
  SampleSource& samples;
  int channels;            // added to the pipe
  Index first_sample;      // global number of the batch's first sample
  Index sample_count = 0;  // evaluation: sample numbers wrap here
  float loss_scale = 0;
  StepResult result{};
  double clip = 1;
};

void Worker::execute(const std::vector<Instr>& program, Execution& run) {
  for (const Instr& instr : program) execute(instr, run);
}

void Worker::execute(const Instr& in, Execution& run) {
  const auto start_of = [&](bool sending) {
    const auto bytes = bytes_of(message_buffer(in, run, sending));
    const int peer = replica_ * programs_.train.depth + in.peer, channel = run.channels + in.pipe;
    request_of(in, sending) =
        sending ? comm_.send_start(peer, channel, bytes) : comm_.recv_start(peer, channel, bytes);
  };
  const auto wait_for = [&](bool sending) {
    comm_.wait(std::exchange(request_of(in, sending), 0), to_string(in));
  };
  switch (in.op) {
    case Op::LoadMicro: return load_micro(in, run);
    case Op::Forward: return forward(in, run);
    case Op::Backward: {
      nn::Pass pass = pass_for(in, run);
      return stage_of(in).backward(pass);
    }
    case Op::BackwardInput: {
      nn::Pass pass = pass_for(in, run);
      return stage_of(in).backward_input(pass);
    }
    case Op::BackwardWeight: {
      nn::Pass pass = pass_for(in, run);
      return stage_of(in).backward_weight(pass);
    }
    case Op::SendStart: return start_of(true);
    case Op::SendWait: return wait_for(true);
    case Op::RecvStart:
      if (in.message == Message::Activation)
        slot_first_micro_[static_cast<std::size_t>(in.slot)] = in.micro;
      return start_of(false);
    case Op::RecvWait: return wait_for(false);
    case Op::AllReduceStart: {
      HeldStage& held = held_.at(in.stage);
      std::vector<float*> mine;
      for (HeldStage::Accumulator& a : held.accumulators)
        mine.push_back(reinterpret_cast<float*>(a.sums.data()));
      return held.reduction->start(mine, mine.front(),
                                   reinterpret_cast<float*>(reduction_scratch_.data()));
    }
    case Op::AllReduceWait: return held_.at(in.stage).reduction->wait(to_string(in));
    case Op::Verdict: return verdict(run);
    case Op::Update: return update(held_.at(in.stage), run);
    case Op::FreeSlot: return;
    case Op::Recompute:
    case Op::ReduceScatterStart:
    case Op::ReduceScatterWait:
    case Op::AllGatherStart:
    case Op::AllGatherWait:
    case Op::PushVersion:
    case Op::Snapshot: Fail("no schedule of this version may contain ", to_string(in));
  }
}

nn::SlotView Worker::slot_of(const Instr& in, const Execution&) {
  ENSURE(in.slot >= 0 && in.slot < slot_count_, to_string(in), " has no slot");
  const Index B = config_.parallel.micro_batch_size;
  return {Flat{slots_.data() + in.slot * slot_bytes_},
          (in.micro - slot_first_micro_[static_cast<std::size_t>(in.slot)]) * B, B * in.count, T_};
}

nn::Pass Worker::pass_for(const Instr& in, const Execution& run) {
  const Index B = config_.parallel.micro_batch_size;
  const Index position = (replica_ * config_.parallel.micro_batches + in.micro) * B;
  nn::Pass pass{.ops = *ops_,
                .mode = run.mode,
                .weights = Flat{held_.at(in.stage).weights.data()},
                .gradients = gradients_of(in.stage, in.pipe, 0),
                .slot = slot_of(in, run),
                .workspace = Flat{workspace_.data()},
                .dropout_seed = static_cast<std::uint64_t>(config_.train.seed),
                .first_sample = run.first_sample + position,
                .loss_scale = run.loss_scale};
  const model::Stage& stage = stage_of(in);
  if (programs_.train.tied && (stage.first() || stage.last())) {
    const int tied = programs_.train.stages();
    pass.tied_weights = Flat{held_.at(tied).weights.data()};
    pass.tied_embedding_gradients = stage.first() ? gradients_of(tied, in.pipe, 0) : Flat{};
    pass.tied_head_gradients = stage.last() ? gradients_of(tied, in.pipe, 1) : Flat{};
  }
  return pass;
}

Flat Worker::gradients_of(int stage, int pipe, int use) {
  for (HeldStage::Accumulator& a : held_.at(stage).accumulators)
    if (a.pipe == pipe && a.use == use) return Flat{a.sums.data()};
  Fail("worker ", worker_, " has no gradient accumulator for stage ", stage, " of pipe ", pipe);
}

Tensor Worker::message_buffer(const Instr& in, const Execution& run, bool sending) {
  const nn::SlotView slot = slot_of(in, run);
  const model::Stage& stage = stage_of(in);
  if (in.message == Message::Gradient) return stage.gradient(slot);
  ENSURE(in.message == Message::Activation, to_string(in), " names no message");
  return sending ? stage.output(slot) : stage.input(slot);
}

Communicator::Request& Worker::request_of(const Instr& in, bool sending) {
  return requests_[static_cast<std::size_t>(in.slot)]
                  [(sending ? 2u : 0u) + (in.message == Message::Gradient ? 1u : 0u)];
}

void Worker::load_micro(const Instr& in, Execution& run) {
  const auto start = std::chrono::steady_clock::now();
  slot_first_micro_[static_cast<std::size_t>(in.slot)] = in.micro;
  const nn::SlotView slot = slot_of(in, run);
  const model::Stage& stage = stage_of(in);
  std::int32_t* inputs = stage.tokens(slot).i32();
  std::int32_t* targets = stage.targets(slot).i32();
  const Index first = pass_for(in, run).first_sample;
  for (Index b = 0; b < slot.samples; ++b) {
    const Index number = run.sample_count > 0 ? (first + b) % run.sample_count : first + b;
    run.samples.read(number, inputs + b * T_, targets + b * T_);
  }
  run.result.data_seconds += seconds_since(start);
}

void Worker::forward(const Instr& in, Execution& run) {
  const model::Stage& stage = stage_of(in);
  nn::Pass pass = pass_for(in, run);
  stage.forward(pass, run.mode == nn::Mode::Train
                          ? static_cast<float>(config_.optimizer.label_smoothing)
                          : 0.0f);
  if (!stage.last()) return;
  const float* losses = stage.losses(pass.slot).f32();
  const Index position = pass.first_sample - run.first_sample;
  for (Index b = 0; b < pass.slot.samples; ++b) {
    double sum = 0;
    for (Index t = 0; t < T_; ++t) sum += static_cast<double>(losses[b * T_ + t]);
    sample_losses_[static_cast<std::size_t>(position + b)] = sum;
  }
}

// The step's one global decision. The vector holds, by model order, each tensor's sum of squares
// (from the one worker that counts it), by position in the batch each sample's loss (from the
// worker that computed it), then the requests: one non-zero contribution per entry, so the sums are
// exact and alike on every worker.
void Worker::verdict(Execution& run) {
  const std::size_t tensors = parameter_names_.size(), batch = sample_losses_.size();
  std::vector<double> values(tensors + batch + 2);
  for (auto& [id, held] : held_) {
    if (!held.counts) continue;
    const Flat gradients{held.accumulators.front().sums.data()};
    for (const nn::Parameter& p : held.params.parameters)
      if (!p.frozen)
        values[static_cast<std::size_t>(p.order)] = ops_->sum_squares(gradients.at(p.region));
  }
  std::copy(sample_losses_.begin(), sample_losses_.end(),
            values.begin() + static_cast<std::ptrdiff_t>(tensors));
  values[tensors + batch] = stop_requested_() ? 1 : 0;
  values[tensors + batch + 1] = run.result.data_seconds / static_cast<double>(comm_.size());
  sum_over_ranks(comm_, kVerdictChannel, values,
                 "the verdict of step " + std::to_string(run.step + 1));

  double squares = 0, loss = 0;
  for (std::size_t i = 0; i < tensors; ++i) squares += values[i];
  for (std::size_t i = 0; i < batch; ++i) loss += values[tensors + i];
  run.result.loss = loss / static_cast<double>(config_.batch() * T_);
  run.result.grad_norm = std::sqrt(squares);
  run.result.stop = values[tensors + batch] > 0;
  run.result.data_seconds = values[tensors + batch + 1];
  if (!std::isfinite(run.result.loss) || !std::isfinite(squares)) reject_non_finite(run, values);
  run.clip = optim::clip_factor(run.result.grad_norm, config_.optimizer.grad_clip);
}

void Worker::reject_non_finite(const Execution& run, const std::vector<double>& values) const {
  const std::size_t tensors = parameter_names_.size();
  const char* way_out =
      "; no worker applied the step. Lower optimizer.learning_rate or raise "
      "lr_schedule.warmup_steps, "
      "and resume from the last checkpoint";
  for (std::size_t i = tensors; i < tensors + sample_losses_.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const Index position = static_cast<Index>(i - tensors),
                per_replica = config_.batch() / config_.parallel.width;
    const Index micro = position % per_replica / config_.parallel.micro_batch_size;
    const int last = programs_.train.stages() - 1;
    Fail("step ", run.step + 1, ": the loss is not finite (", values[i], ") first in micro-batch ",
         micro, " of replica ", position / per_replica, ", at stage ", last, " on worker ",
         position / per_replica * programs_.train.depth + host_of_forward(last, micro),
         ", global sample ", run.first_sample + position, way_out);
  }
  for (std::size_t i = 0; i < tensors; ++i)
    if (!std::isfinite(values[i]))
      Fail("step ", run.step + 1, ": the gradient of ", parameter_names_[i], ", stage ",
           parameter_stages_[i], " (first held by worker ",
           programs_.train.groups[static_cast<std::size_t>(parameter_stages_[i])]
               .holders.front()
               .worker,
           "), is not finite", way_out);
  Fail("step ", run.step + 1, ": the gradient norm overflows", way_out);
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

void Worker::update(HeldStage& held, const Execution& run) {
  optim::adamw_step(*ops_, held.params, Flat{held.weights.data()}, Flat{held.m.data()},
                    Flat{held.v.data()}, Flat{held.accumulators.front().sums.data()},
                    config_.optimizer, run.result.learning_rate, run.clip, run.step + 1,
                    config_.model.n_layer);
}

StepResult Worker::train_step(SampleSource& samples, Index step) {
  for (auto& [id, held] : held_)
    for (HeldStage::Accumulator& a : held.accumulators)
      device_->zero(a.sums.data(), a.sums.bytes());
  std::ranges::fill(sample_losses_, 0.0);
  Execution run{.mode = nn::Mode::Train,
                .step = step,
                .samples = samples,
                .channels = 0,
                .first_sample = sample_origin_ + step * config_.batch(),
                .loss_scale = 1.0f / static_cast<float>(config_.batch() * T_)};
  run.result.learning_rate = optim::learning_rate(
      step, config_.train.steps, config_.optimizer.learning_rate, config_.lr_schedule);
  execute(programs_.train.programs[static_cast<std::size_t>(worker_)].body, run);
  return run.result;
}

Worker::Evaluation Worker::evaluate(SampleSource& samples, Index count) {
  std::vector<double> values(sample_losses_.size() + 1);
  const Index batch = config_.batch();
  double loss = 0;
  for (Index first = 0; first < count; first += batch) {
    std::ranges::fill(sample_losses_, 0.0);
    Execution run{.mode = nn::Mode::Evaluate,
                  .step = first / batch,
                  .samples = samples,
                  .channels = kEvaluationChannels,
                  .first_sample = first,
                  .sample_count = count};
    execute(programs_.evaluation.programs[static_cast<std::size_t>(worker_)].body, run);
    std::ranges::copy(sample_losses_, values.begin());
    values.back() = stop_requested_() ? 1 : 0;
    sum_over_ranks(comm_, kVerdictChannel, values, concat("evaluation from sample ", first));
    if (values.back() > 0) return {0, true};
    for (Index i = 0; i < std::min(batch, count - first); ++i)
      loss += values[static_cast<std::size_t>(i)];
  }
  return {loss / static_cast<double>(count * T_), false};
}

}  // namespace chimera::train
