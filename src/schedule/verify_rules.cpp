// What each instruction must find, and what it leaves.
#include <algorithm>

#include "verify_state.h"

namespace chimera::schedule {
namespace {

bool same_message(const Instr& a, const Instr& b) {
  return a.pipe == b.pipe && a.stage == b.stage && a.micro == b.micro && a.count == b.count &&
         a.message == b.message && a.slot == b.slot && a.peer == b.peer;
}

}  // namespace

void Machine::check_training(int w, const Instr& in) const {
  const bool training = in.op == Op::Backward || in.op == Op::BackwardInput ||
                        in.op == Op::BackwardWeight || in.op == Op::AllReduceStart ||
                        in.op == Op::Verdict || in.op == Op::Update ||
                        in.message == Message::Gradient;
  if (schedule_.forward_only && training) fail(w, "evaluation has forwards and activations only");
  if (workers_[at(w)].verdict && in.op != Op::Update)
    fail(w, "only updates may follow the Verdict of a step");
}

// A micro-batch runs on one pipe.
void Machine::join_pipe(int w, const Instr& in) {
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    int& pipe = pipe_of_[at(m)];
    if (pipe >= 0 && pipe != in.pipe)
      fail(w, "micro-batch ", m, " runs on pipe ", pipe, " already");
    pipe = in.pipe;
  }
}

std::string Machine::unfinished_reason(const SlotState& slot) const {
  const std::string who =
      concat("it holds micro-batch ", slot.block * span_, " of stage ", slot.stage);
  if (slot.unfinished > 0)
    return concat(who, ", which still needs its ", schedule_.forward_only ? "Forward" : "Backward");
  if (slot.under_way > 0)
    return concat(who, ", a message of which has had no wait (SendWait missing)");
  return concat(who, ", and no FreeSlot came");
}

// LoadMicro and RecvStart: takes a free slot, or the one that this micro-batch has.
void Machine::enter_slot(int w, const Instr& in) {
  SlotState& slot = workers_[at(w)].slots[at(in.slot)];
  const int block = in.micro / span_;
  if (block != (in.micro + in.count - 1) / span_)
    fail(w, "it crosses the border between two slots of ", span_, " micro-batches");
  if (slot.stage >= 0 && (slot.stage != in.stage || slot.block != block))
    fail(w, "slot ", in.slot, " is in use: ", unfinished_reason(slot));
  int& home = slot_of_[at(in.stage * ceil_div(schedule_.micro_batches, span_) + block)];
  if (home >= 0 && home != in.slot)
    fail(w, "this micro-batch has slot ", home, ", and would be in two");
  home = in.slot;
  slot.stage = in.stage;
  slot.block = block;
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    const MicroState& state = micro(in.stage, m);
    if (state.loaded || state.input_posted) continue;
    ++slot.unfinished;
  }
}

void Machine::check_slot(int w, const Instr& in) const {
  const SlotState& slot = workers_[at(w)].slots[at(in.slot)];
  if (slot.stage != in.stage || slot.block != in.micro / span_)
    fail(w, "slot ", in.slot, " does not hold this micro-batch",
         slot.stage >= 0 ? ": " + unfinished_reason(slot) : std::string(": it is free"));
}

void Machine::load(int w, const Instr& in) {
  join_pipe(w, in);
  if (in.stage != 0 && in.stage != S_ - 1) fail(w, "only the first and the last stage read data");
  enter_slot(w, in);
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(in.stage, m);
    if (state.loaded) fail(w, "micro-batch ", m, " is loaded twice");
    if (state.forward) fail(w, "micro-batch ", m, " is loaded after its Forward");
    state.loaded = true;
  }
}

void Machine::forward(int w, const Instr& in) {
  join_pipe(w, in);
  check_slot(w, in);
  WorkerState& worker = workers_[at(w)];
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(in.stage, m);
    if (state.forward) fail(w, "a second Forward of micro-batch ", m);
    if (in.stage == 0 && !state.loaded) fail(w, "micro-batch ", m, " has not been loaded");
    if (in.stage == S_ - 1 && !state.loaded)
      fail(w, "the targets of micro-batch ", m, " have not been loaded");
    if (in.stage > 0 && !state.input_here)
      fail(w, "its input has not arrived: there is no RecvWait for micro-batch ", m);
    state.forward = true;
  }
  if (schedule_.forward_only) worker.slots[at(in.slot)].unfinished -= in.count;
  int& most = report_.workers[at(w)].in_flight;
  if (schedule_.forward_only)
    most = std::max(most, in.count);
  else
    most = std::max(most, worker.in_flight += in.count);
}

void Machine::backward(int w, const Instr& in) {
  check_slot(w, in);
  WorkerState& worker = workers_[at(w)];
  const bool input = in.op != Op::BackwardWeight, weight = in.op != Op::BackwardInput;
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(in.stage, m);
    if (!state.forward) fail(w, "micro-batch ", m, " has not had its Forward");
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
  int& last = last_backward_[at(in.pipe * S_ + in.stage)];
  if (in.micro < last)
    fail(w,
         "gradients of one (pipe, stage) must be added in ascending micro-batch order, and "
         "micro-batch ",
         last, " was before");
  last = in.micro + in.count - 1;
  const auto reduced = [&](int stage) { return worker.reductions[at(stage)] != Reduction::None; };
  if (reduced(in.stage) || (schedule_.tied && (in.stage == 0 || in.stage == S_ - 1) && reduced(S_)))
    fail(w, "it adds to gradients that are already being reduced");
  worker.slots[at(in.slot)].unfinished -= in.count;
  worker.in_flight -= in.count;
}

void Machine::check_send(int w, const Instr& in) const {
  check_slot(w, in);
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    const MicroState& state = micro(in.stage, m);
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
    MicroState& state = micro(in.stage, m);
    (in.message == Message::Activation ? state.output_sent : state.gradient_sent) = true;
  }
  ++worker.slots[at(in.slot)].under_way;
  worker.under_way.push_back(in);
  ++report_.workers[at(w)].messages;
}

void Machine::receive(int w, const Instr& in) {
  join_pipe(w, in);
  const bool activation = in.message == Message::Activation;
  if (activation)
    enter_slot(w, in);
  else
    check_slot(w, in);
  WorkerState& worker = workers_[at(w)];
  for (int m = in.micro; m < in.micro + in.count; ++m) {
    MicroState& state = micro(in.stage, m);
    bool& posted = activation ? state.input_posted : state.gradient_posted;
    if (posted) fail(w, "it is received a second time");
    posted = true;
  }
  // The gradient is computed from the output, so the output is long there, and its memory may be
  // used.
  for (const Instr& other : worker.under_way)
    if (!activation && other.op == Op::SendStart && other.slot == in.slot &&
        other.message == Message::Activation && other.micro == in.micro)
      fail(w, "the activation of this slot has had no SendWait");
  ++worker.slots[at(in.slot)].under_way;
  worker.under_way.push_back(in);
}

void Machine::wait(int w, const Instr& in) {
  WorkerState& worker = workers_[at(w)];
  const Op start = in.op == Op::SendWait ? Op::SendStart : Op::RecvStart;
  const auto it = std::ranges::find_if(worker.under_way, [&](const Instr& other) {
    return other.op == start && same_message(other, in);
  });
  if (it == worker.under_way.end()) fail(w, "nothing like it has been started");
  worker.under_way.erase(it);
  --worker.slots[at(in.slot)].under_way;
  if (in.op == Op::SendWait) return;
  for (int m = in.micro; m < in.micro + in.count; ++m)
    (in.message == Message::Activation ? micro(in.stage, m).input_here
                                       : micro(in.stage, m).gradient_here) = true;
}

void Machine::reduce_start(int w, const Instr& in) {
  Reduction& state = workers_[at(w)].reductions[at(in.stage)];
  if (schedule_.contributions(schedule_.groups[at(in.group)]) < 2)
    fail(w, "stage ", in.stage, " has one contribution: there is nothing to reduce");
  if (state != Reduction::None) fail(w, "stage ", in.stage, " is reduced a second time");
  state = Reduction::Started;
  ++report_.workers[at(w)].reductions;
}

void Machine::reduce_wait(int w, const Instr& in) {
  Reduction& state = workers_[at(w)].reductions[at(in.stage)];
  if (state != Reduction::Started) fail(w, "no reduction of stage ", in.stage, " is under way");
  state = Reduction::Done;
}

void Machine::verdict(int w) {
  WorkerState& worker = workers_[at(w)];
  for (const Group& group : schedule_.groups)
    if (worker.held[at(group.stage)] && schedule_.contributions(group) > 1 &&
        worker.reductions[at(group.stage)] != Reduction::Done)
      fail(w, "stage ", group.stage, " has ", schedule_.contributions(group),
           " contributions and is not reduced: its AllReduce is missing");
  worker.verdict = true;
}

void Machine::update(int w, const Instr& in) {
  WorkerState& worker = workers_[at(w)];
  if (!worker.verdict) fail(w, "an Update before the Verdict of the step");
  if (worker.updated[at(in.stage)]) fail(w, "stage ", in.stage, " is updated a second time");
  worker.updated[at(in.stage)] = true;
}

void Machine::free_slot(int w, const Instr& in) {
  SlotState& slot = workers_[at(w)].slots[at(in.slot)];
  if (slot.stage < 0) fail(w, "slot ", in.slot, " is free already");
  if (slot.unfinished > 0 || slot.under_way > 0)
    fail(w, "slot ", in.slot, " is in use: ", unfinished_reason(slot));
  slot = {};
}

}  // namespace chimera::schedule
