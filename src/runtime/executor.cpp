// The executor: one switch over the instruction's operation.
#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "chimera/runtime/worker.h"
#include "step_state.h"

namespace chimera {
namespace {

using schedule::Instr;
using schedule::Message;
using schedule::Op;

// Training uses channel `pipe`, evaluation this many more. Beyond it pipes share channels: both
// ends of a link post all messages in one order.
constexpr int kPipeChannels = 48;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

StageState::Collective collective_of(Op op) {
  if (op == Op::ReduceScatterStart) return StageState::Collective::ReduceScatter;
  if (op == Op::AllGatherStart) return StageState::Collective::AllGather;
  return StageState::Collective::AllReduce;
}

}  // namespace

// Iterations of the body until the last step has drained; an instruction of a step outside the run
// is not executed.
void Worker::run(Execution& run, const schedule::Schedule& schedule) try {
  const std::vector<Instr>& body = schedule.programs[static_cast<std::size_t>(worker_)].body;
  const Index lag = schedule.lag();
  run.activations_kept = schedule.keeps_activations();
  for (run.iteration = run.first; run.iteration < run.last + lag; ++run.iteration)
    for (const Instr& in : body) {
      const Index step = run.step(in);
      if (step < run.first || step >= run.last) continue;
      if (trace_ != nullptr && std::ranges::count(*traced_steps_, step) > 0)
        execute_traced(in, run);
      else
        execute(in, run);
    }
} catch (const Aborted&) {
  throw;
} catch (...) {
  comm_.fail(std::current_exception());  // before buffers go that others may be reading
  throw;
}

void Worker::execute_traced(const Instr& in, Execution& run) {
  TraceEvent event{in, run.step(in), now()};
  run.background.reset();
  const auto mark = [&] {
    std::unique_ptr<Event> made = device().make_event(true);
    device().record(*made, Stream::Compute);
    return made;
  };
  std::unique_ptr<Event> begin = clock_ ? mark() : nullptr;
  execute(in, run);
  event.end = now();
  trace_->push_back(event);
  if (clock_)
    return clock_->spans.push_back({trace_->size() - 1, std::move(begin), mark()}), void();
  if (!run.background) return;
  event.background = true;
  event.begin = seconds_of(run.background->begin);
  event.end = seconds_of(run.background->end);
  trace_->push_back(event);
}

void Worker::trace(const std::vector<Index>* steps, std::vector<TraceEvent>* events) {
  if (clock_) {
    device().synchronize();
    for (const DeviceClock::Span& span : clock_->spans) {
      TraceEvent& event = trace_->at(span.event);
      event.begin = clock_->zero_seconds + device().seconds_between(*clock_->zero, *span.begin);
      event.end = clock_->zero_seconds + device().seconds_between(*clock_->zero, *span.end);
    }
    clock_.reset();
  }
  traced_steps_ = steps;
  trace_ = events;
  if (trace_ == nullptr || !backend_.on_gpu()) return;
  clock_ = std::make_unique<DeviceClock>();
  clock_->zero = device().make_event(true);
  device().record(*clock_->zero, Stream::Compute);
  device().synchronize();
  clock_->zero_seconds = now();
}

void Worker::execute(const Instr& in, Execution& run) {
  switch (in.op) {
    case Op::LoadMicro: return load_micro(in, run);
    case Op::Forward:
    case Op::Recompute:
    case Op::Backward:
    case Op::BackwardInput:
    case Op::BackwardWeight: return compute(in, run);
    case Op::RecvStart:
    case Op::SendStart: return start_message(in, run);
    case Op::RecvWait:
    case Op::SendWait: return wait_for_message(in, run);
    case Op::AllReduceStart:
    case Op::ReduceScatterStart:
    case Op::AllGatherStart:
      return held_.at(in.stage).start(collective_of(in.op), run.step(in), background());
    case Op::AllReduceWait:
    case Op::ReduceScatterWait:
    case Op::AllGatherWait: run.background = held_.at(in.stage).wait(background()); return;
    case Op::GradNorm:
      return sum_squares(held_.at(in.stage), state_of(run.step(in)), to_string(in));
    case Op::StepSyncStart: return step_sync_start(state_of(run.step(in)));
    case Op::StepSyncWait: return step_sync_wait(run, state_of(run.step(in)));
    case Op::Update: return update(in, run);
    case Op::Release: return buffers_.release(lease_of(in, run));
  }
}

BufferPool::Lease& Worker::lease_of(const Instr& in, const Execution& run) {
  return acquires_boundary(in.op) ? buffers_.acquire(in, run.step(in))
                                  : buffers_.find(in, run.step(in));
}

void Worker::compute(const Instr& in, Execution& run) {
  BufferPool::Lease& lease = lease_of(in, run);
  if (acquires_activations(in.op)) buffers_.acquire_activations(lease, in.count);
  if (compute_override_) {
    compute_override_(in);
  } else if (in.op == Op::Forward) {
    forward(in, run, lease);
  } else {
    nn::Pass pass = pass_for(in, run, lease);
    replay(in, pass, [&, &stage = stage_of(in)] {
      if (in.op == Op::Recompute) stage.recompute(pass);
      if (in.op == Op::Backward) stage.backward(pass);
      if (in.op == Op::BackwardInput) stage.backward_input(pass);
      if (in.op == Op::BackwardWeight) stage.backward_weight(pass);
    });
  }
  if (releases_activations(in.op, run.activations_kept))
    buffers_.release_activations(lease, in.count);
}

// A computation is a function of the memory that its pass names, unless it draws dropout masks.
void Worker::replay(const Instr& in, const nn::Pass& pass, const std::function<void()>& body) {
  const model::ModelConfig& m = config_.model;
  const bool draws =
      pass.mode == nn::Mode::Train && (m.embd_pdrop > 0 || m.attn_pdrop > 0 || m.resid_pdrop > 0);
  if (!device().replays() || !config_.device.graphs || draws) return body();
  const auto bits = [](const auto* p) { return reinterpret_cast<std::uintptr_t>(p); };
  device().replay(
      {static_cast<std::uint64_t>(in.op), static_cast<std::uint64_t>(in.stage),
       static_cast<std::uint64_t>(in.count), static_cast<std::uint64_t>(pass.mode),
       bits(pass.boundary.memory.base), static_cast<std::uint64_t>(pass.boundary.first),
       bits(pass.activations.memory.base), bits(pass.weights.base), bits(pass.gradients.base),
       bits(pass.tied_weights.base), bits(pass.tied_embedding_gradients.base),
       bits(pass.tied_head_gradients.base), std::bit_cast<std::uint32_t>(pass.loss_scale)},
      body);
}

Index Worker::position_of(const Instr& in) const {
  const ParallelConfig& p = config_.parallel;
  return (replica_ * p.request.micro_batches + in.micro) * p.micro_batch_size;
}

nn::Pass Worker::pass_for(const Instr& in, Execution& run, const BufferPool::Lease& lease) {
  const Index B = config_.parallel.micro_batch_size, step = run.step(in);
  const bool train = run.mode == nn::Mode::Train;
  const Index place = in.micro % buffers_.span() * B;
  const auto weights = [&](int id) {
    const StageState& held = held_.at(id);
    return held.weights(train ? step - in.version : held.newest());
  };
  const auto gradients = [&](int id, int use) {
    return train ? held_.at(id).gradients(in.pipe, use, step) : Flat{};
  };
  const model::Stage& stage = stage_of(in);
  nn::Pass pass{
      .ops = ops(),
      .mode = run.mode,
      .weights = weights(in.stage),
      .boundary = {Flat{lease.boundary}, place, B * in.count, T_},
      .activations = {Flat{lease.activations}, place, B * in.count, T_},
      .workspace = Flat{workspace_.data()},
      .dropout_seed = static_cast<std::uint64_t>(config_.train.seed),
      .first_sample = (train ? sample_origin_ : 0) + step * config_.batch() + position_of(in),
      .loss_scale = run.loss_scale};
  if (train) pass.loss_scale *= static_cast<float>(state_of(step).result.loss_scale);
  // A forward adds gradients at the head alone; touching others would begin their next step.
  const bool adds = in.op == Op::Backward || in.op == Op::BackwardInput ||
                    in.op == Op::BackwardWeight || (in.op == Op::Forward && stage.last());
  if (adds) pass.gradients = gradients(in.stage, 0);
  if (!programs_.train.tied || !(stage.first() || stage.last())) return pass;
  const int tied = programs_.train.stages();
  pass.tied_weights = weights(tied);
  if (adds && stage.first()) pass.tied_embedding_gradients = gradients(tied, 0);
  if (adds && stage.last()) pass.tied_head_gradients = gradients(tied, 1);
  return pass;
}

void Worker::start_message(const Instr& in, Execution& run) {
  const bool sending = in.op == Op::SendStart;
  BufferPool::Lease& lease = lease_of(in, run);
  const Index B = config_.parallel.micro_batch_size;
  const nn::BufferView boundary{Flat{lease.boundary}, in.micro % buffers_.span() * B, B * in.count,
                                T_};
  const model::Stage& stage = stage_of(in);
  const Tensor what = in.message == Message::Gradient ? stage.gradient(boundary)
                      : sending                       ? stage.output(boundary)
                                                      : stage.input(boundary);
  const int peer = replica_ * programs_.train.depth + in.peer,
            channel = run.channels + in.pipe % kPipeChannels;
  buffers_.request(lease, in, sending) = sending
                                             ? tensors_.send_start(peer, channel, bytes_of(what))
                                             : tensors_.recv_start(peer, channel, bytes_of(what));
}

void Worker::wait_for_message(const Instr& in, Execution& run) {
  BufferPool::Lease& lease = lease_of(in, run);
  tensors_.wait(std::exchange(buffers_.request(lease, in, in.op == Op::SendWait), 0),
                to_string(in));
}

void Worker::load_micro(const Instr& in, Execution& run) {
  const double start = now();
  const BufferPool::Lease& lease = lease_of(in, run);
  const nn::Pass pass = pass_for(in, run, lease);
  const model::Stage& stage = stage_of(in);
  const Index rows = pass.boundary.samples * T_;
  std::int32_t *inputs = tokens_.data(), *targets = inputs + rows;
  for (Index b = 0; b < pass.boundary.samples; ++b) {
    const Index sample = pass.first_sample + b;
    run.samples.read(run.sample_count > 0 ? sample % run.sample_count : sample, inputs + b * T_,
                     targets + b * T_);
  }
  const Index bytes = rows * size_of(DType::I32);
  device().copy_in(stage.tokens(pass.boundary).raw(), inputs, bytes);
  device().copy_in(stage.targets(pass.boundary).raw(), targets, bytes);
  state_of(run.step(in)).result.data_seconds += now() - start;
}

// On the CPU the micro-batches of a forward are computed one after the other: with AVX2, oneDNN
// gives the rows of a product other bits for another number of rows, and their backward or
// recomputation may have fewer.
void Worker::forward(const Instr& in, Execution& run, BufferPool::Lease& lease) {
  const model::Stage& stage = stage_of(in);
  const int each = backend_.on_gpu() ? in.count : 1;
  for (Instr part = in; part.micro < in.micro + in.count; part.micro += each) {
    part.count = each;
    nn::Pass pass = pass_for(part, run, lease);
    replay(part, pass, [&] {
      stage.forward(pass, run.mode == nn::Mode::Train
                              ? static_cast<float>(config_.optimizer.label_smoothing)
                              : 0.0f);
    });
    if (!stage.last()) continue;
    const Index samples = pass.boundary.samples;
    ops().sum_rows(losses_of(state_of(run.step(in))).rows(position_of(part), samples),
                   stage.losses(pass.boundary).reshaped({samples, T_}));
  }
}

Index Worker::train_steps(SampleSource& samples, Index first, Index last, const StepDone& done) {
  for (auto& [id, held] : held_) {
    ENSURE(held.newest() == first, "step ", first, " is to follow ", held.newest(),
           " updates; set the weights that it begins with (begin_at)");
    if (!versions_known_) held.spread_newest();
  }
  versions_known_ = true;
  for (StepState& state : states_) state.step = -1;  // evaluations use them, too
  Execution execution{.mode = nn::Mode::Train,
                      .samples = samples,
                      .channels = 0,
                      .loss_scale = 1.0f / static_cast<float>(config_.batch() * T_),
                      .done = done,
                      .first = first,
                      .last = last};
  run(execution, programs_.train);
  return execution.last;
}

StepResult Worker::train_step(SampleSource& samples, Index step) {
  StepResult result;
  train_steps(samples, step, step + 1, [&](Index, const StepResult& r) {
    result = r;
    return false;
  });
  return result;
}

Worker::Evaluation Worker::evaluate(SampleSource& samples, Index count) {
  const Index batch = config_.batch();
  std::vector<double> values(static_cast<std::size_t>(batch) + 1);
  double loss = 0;
  for (Index first = 0; first < count; first += batch) {
    Execution execution{.mode = nn::Mode::Evaluate,
                        .samples = samples,
                        .channels = kPipeChannels,
                        .sample_count = count,
                        .first = first / batch,
                        .last = first / batch + 1};
    begin_step(execution.first);
    run(execution, programs_.evaluation);
    read_losses(state_of(execution.first), std::span(values).first(values.size() - 1));
    values.back() = stop_requested_() ? 1 : 0;
    sum_over_ranks(comm_, kPipeChannels, values, concat("evaluation from sample ", first));
    if (values.back() > 0) return {0, true};
    for (Index i = 0; i < std::min(batch, count - first); ++i)
      loss += values[static_cast<std::size_t>(i)];
  }
  return {loss / static_cast<double>(count * T_), false};
}

}  // namespace chimera
