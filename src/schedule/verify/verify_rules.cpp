// What computations and messages must find, and what they leave.
#include <algorithm>

#include "verify_state.h"

namespace chimera::schedule {
namespace {

bool same_message(const Instr& a, const Instr& b) {
  return a.pipe == b.pipe && a.stage == b.stage && a.micro == b.micro && a.count == b.count &&
         a.message == b.message && a.peer == b.peer;
}

bool is_for_training(const Instr& in) {
  switch (in.op) {
    case Op::LoadMicro:
    case Op::Forward:
    case Op::Release: return false;
    case Op::SendStart:
    case Op::SendWait:
    case Op::RecvStart:
    case Op::RecvWait: return in.message == Message::Gradient;
    default: return true;
  }
}

}  // namespace

void Machine::check_training(int w, const Instr& in) const {
  if (schedule_.forward_only && is_for_training(in))
    fail(w, "evaluation has forwards and activations only");
  const bool ends_step = in.op == Op::StepSyncWait || in.op == Op::Update ||
                         in.op == Op::AllGatherStart || in.op == Op::AllGatherWait;
  if (barrier() && workers_[at(w)].step_syncs_started > step(w) && !ends_step)
    fail(w, "only updates may follow the step synchronisation");
}

// A micro-batch runs on one pipe.
void Machine::join_pipe(int w, const Instr& in) {
  for (int m = in.micro; m < in.micro + in.count; ++m)
    if (pipe_of_[at(m)] >= 0 && pipe_of_[at(m)] != in.pipe)
      fail(w, "micro-batch ", m, " runs on pipe ", pipe_of_[at(m)], " already");
}

// LoadMicro and RecvStart: takes a boundary buffer, or finds the one that these micro-batches have.
void Machine::acquire_boundary(int w, const Instr& in) {
  const int block = in.micro / span_;
  if (block != (in.micro + in.count - 1) / span_)
    fail(w, "it crosses the border between two buffers of ", span_, " micro-batches");
  WorkerState& worker = workers_[at(w)];
  worker.leases[{step(w), in.stage, block}];
  int& most = report_.workers[at(w)].boundary_buffers;
  most = std::max(most, static_cast<int>(worker.leases.size()));
  if (most > schedule_.boundary_buffers[at(w)])
    fail(w, "it needs boundary buffer ", most, ", beyond the worker's pool of ",
         schedule_.boundary_buffers[at(w)]);
}

Lease& Machine::lease(int w, const Instr& in) {
  WorkerState& worker = workers_[at(w)];
  const auto it = worker.leases.find({step(w), in.stage, in.micro / span_});
  if (it == worker.leases.end())
    fail(w,
         "these micro-batches have no buffer: nothing was loaded or received, or it was released");
  return it->second;
}

void Machine::acquire_activations(int w, Lease& t, int count) {
  if (t.live == 0) ++workers_[at(w)].activations;
  t.live += count;
  int& most = report_.workers[at(w)].activation_buffers;
  most = std::max(most, workers_[at(w)].activations);
  if (most > schedule_.activation_buffers[at(w)])
    fail(w, "it needs activation buffer ", most, ", beyond the worker's pool of ",
         schedule_.activation_buffers[at(w)]);
}

void Machine::release_activations(int w, Lease& t, int count) {
  if ((t.live -= count) == 0) --workers_[at(w)].activations;
}

void Machine::load(int w, const Instr& in) {
  join_pipe(w, in);
  if (in.stage != 0 && in.stage != S_ - 1) fail(w, "only the first and the last stage read data");
  acquire_boundary(w, in);
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(step(w), in.stage, m);
    if (state.loaded) fail(w, "micro-batch ", m, " is loaded twice");
    state.loaded = true;
  }
}

void Machine::forward(int w, const Instr& in) {
  join_pipe(w, in);
  check_version(w, in);
  Lease& t = lease(w, in);
  if (in.stage == S_ - 1 && !schedule_.forward_only) check_accumulators(w, in.stage);
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(step(w), in.stage, m);
    if (state.forward) fail(w, "a second Forward of micro-batch ", m);
    if (in.stage == 0 && !state.loaded) fail(w, "micro-batch ", m, " has not been loaded");
    if (in.stage == S_ - 1 && !state.loaded)
      fail(w, "the targets of micro-batch ", m, " have not been loaded");
    if (in.stage > 0 && !state.input_here)
      fail(w, "its input has not arrived: there is no RecvWait for micro-batch ", m);
    state.forward = true;
  }
  acquire_activations(w, t, in.count);
  if (schedule_.forward_only || recomputes_) release_activations(w, t, in.count);
  WorkerState& worker = workers_[at(w)];
  int& most = report_.workers[at(w)].in_flight;
  if (schedule_.forward_only)
    most = std::max(most, in.count);
  else
    most = std::max(most, worker.in_flight += in.count);
}

void Machine::recompute(int w, const Instr& in) {
  check_version(w, in);
  Lease& t = lease(w, in);
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(step(w), in.stage, m);
    if (!state.forward) fail(w, "micro-batch ", m, " has not had its Forward");
    if (state.recomputed) fail(w, "a second Recompute of micro-batch ", m);
    state.recomputed = true;
  }
  acquire_activations(w, t, in.count);
}

void Machine::backward(int w, const Instr& in) {
  check_version(w, in);
  Lease& t = lease(w, in);
  WorkerState& worker = workers_[at(w)];
  const bool input = in.op != Op::BackwardWeight, weight = in.op != Op::BackwardInput;
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(step(w), in.stage, m);
    if (!state.forward) fail(w, "micro-batch ", m, " has not had its Forward");
    if (recomputes_ && !state.recomputed) fail(w, "micro-batch ", m, " has had no Recompute");
    if (pipe_of_[at(m)] != in.pipe) fail(w, "micro-batch ", m, " runs on pipe ", pipe_of_[at(m)]);
    if (input ? state.backward_input : state.backward)
      fail(w, "a second Backward of micro-batch ", m);
    if (!input && !state.backward_input)
      fail(w, "the BackwardInput of micro-batch ", m, " comes first");
    if (in.stage + 1 < S_ && !state.gradient_here)
      fail(w, "its gradient has not arrived: there is no RecvWait for micro-batch ", m);
    state.backward_input = true;
    state.backward = weight;
  }
  if (!weight) return;
  check_accumulators(w, in.stage);
  int& last = worker.last_backward[at(in.pipe * S_ + in.stage)];
  const int position = step(w) * schedule_.micro_batches + in.micro;
  if (position < last)
    fail(w,
         "gradients of one (pipe, stage) must be added in ascending micro-batch order, and "
         "micro-batch ",
         last % schedule_.micro_batches, " was before");
  last = position + in.count - 1;
  release_activations(w, t, in.count);
  worker.in_flight -= in.count;
}

void Machine::check_send(int w, const Instr& in) const {
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    const MicroState& state = micro(step(w), in.stage, m);
    const bool activation = in.message == Message::Activation;
    if (activation ? !state.forward : !state.backward_input)
      fail(w, "micro-batch ", m, " has not had its ", activation ? "Forward" : "Backward",
           ": there is nothing to send");
    if (activation ? state.output_sent : state.gradient_sent) fail(w, "it is sent a second time");
  }
}

void Machine::send(int w, const Instr& in) {
  WorkerState& worker = workers_[at(w)];
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(step(w), in.stage, m);
    (in.message == Message::Activation ? state.output_sent : state.gradient_sent) = true;
  }
  ++lease(w, in).under_way;
  worker.under_way.push_back(in);
  worker.under_way.back().step = step(w);
  if (step(w) == 0) ++report_.workers[at(w)].messages;
}

void Machine::receive(int w, const Instr& in) {
  join_pipe(w, in);
  const bool activation = in.message == Message::Activation;
  if (activation) acquire_boundary(w, in);
  ++lease(w, in).under_way;
  if (!activation)  // the gradient may lie where the output was
    for (const Instr& other : workers_[at(w)].under_way)
      if (other.op == Op::SendStart && other.message == Message::Activation &&
          other.stage == in.stage && other.step == step(w) && other.micro < in.micro + in.count &&
          in.micro < other.micro + other.count)
        fail(w, "the activation of the same micro-batch is still being sent (SendWait missing)");
  workers_[at(w)].under_way.push_back(in);
  workers_[at(w)].under_way.back().step = step(w);
}

void Machine::wait(int w, const Instr& in) {
  WorkerState& worker = workers_[at(w)];
  const Op start = in.op == Op::SendWait ? Op::SendStart : Op::RecvStart;
  const auto it = std::ranges::find_if(worker.under_way, [&](const Instr& other) {
    return other.op == start && other.step == step(w) && same_message(other, in);
  });
  if (it == worker.under_way.end()) fail(w, "nothing like it has been started");
  worker.under_way.erase(it);
  --lease(w, in).under_way;
  if (in.op == Op::SendWait) return;
  for (int m = in.micro; m < in.micro + in.count; ++m)
    (in.message == Message::Activation ? micro(step(w), in.stage, m).input_here
                                       : micro(step(w), in.stage, m).gradient_here) = true;
}

void Machine::release(int w, const Instr& in) {
  const Lease& t = lease(w, in);
  int first = in.micro / span_ * span_, end = std::min(first + span_, schedule_.micro_batches);
  while (pipe_of_[at(first)] != in.pipe && first < in.micro) ++first;
  while (end > in.micro + 1 && pipe_of_[at(end - 1)] != in.pipe) --end;
  if (in.micro != first || in.count != end - first)
    fail(w, "a buffer is released as a whole: its micro-batches are ", end - first, " from ", first,
         " on");
  for (int m = first; m < end; ++m) {
    const MicroState& state = micro(step(w), in.stage, m);
    if (schedule_.forward_only ? !state.forward : !state.backward)
      fail(w, "the buffer is in use: micro-batch ", m, " still needs its ",
           schedule_.forward_only ? "Forward" : "Backward");
    if (schedule_.forward_only ? in.stage + 1 < S_ && !state.output_sent
                               : in.stage > 0 && !state.gradient_sent)
      fail(w, "the buffer is in use: micro-batch ", m, " has not been sent");
  }
  if (t.under_way > 0)
    fail(w, "the buffer is in use: a message of it has had no wait (SendWait missing)");
  workers_[at(w)].leases.erase({step(w), in.stage, in.micro / span_});
}

}  // namespace chimera::schedule
