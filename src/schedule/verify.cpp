// Execution of all programs against each other. A send and its receive, the members of a reduction,
// and all workers at the verdict block until the others are there: if this ends, so does every run,
// since real transports only ever block less.
#include "chimera/schedule/verify.h"

#include <algorithm>

#include "verify_state.h"

namespace chimera::schedule {

Machine::Machine(const Schedule& schedule)
    : schedule_(schedule), S_(schedule.stages()), workers_(at(schedule.depth)) {
  for (const Program& program : schedule.programs)
    for (const Instr& in : program.body) span_ = std::max(span_, in.count);
  micros_.resize(at(S_) * at(schedule.micro_batches));
  last_backward_.assign(at(schedule.pipes() * S_), -1);
  pipe_of_.assign(at(schedule.micro_batches), -1);
  slot_of_.assign(at(S_) * at(ceil_div(schedule.micro_batches, span_)), -1);
  for (int w = 0; w < schedule.depth; ++w) {
    WorkerState& worker = workers_[at(w)];
    worker.slots.resize(at(schedule.slots[at(w)]));
    worker.reductions.resize(schedule.groups.size());
    worker.held.resize(schedule.groups.size());
    worker.updated.resize(schedule.groups.size());
    report_.workers.push_back({.slots = schedule.slots[at(w)]});
    report_.instructions += static_cast<Index>(schedule.programs[at(w)].body.size());
  }
  for (const Group& group : schedule.groups)
    for (const Holder& h : group.holders) workers_[at(h.worker)].held[at(group.stage)] = true;
}

VerifyReport Machine::run() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (int w = 0; w < schedule_.depth; ++w)
      while (!ended(w) && try_step(w)) moved = true;
  }
  for (int w = 0; w < schedule_.depth; ++w)
    if (!ended(w)) report_deadlock();
  check_end();
  return std::move(report_);
}

void Machine::advance(int worker) { ++workers_[at(worker)].next; }

// Executes the worker's next instruction, together with its partners where it needs them. False:
// some partner is not there yet.
bool Machine::try_step(int w) {
  const Instr& in = current(w);
  check_training(w, in);
  switch (in.op) {
    case Op::LoadMicro: load(w, in); break;
    case Op::Forward: forward(w, in); break;
    case Op::Backward:
    case Op::BackwardInput:
    case Op::BackwardWeight: backward(w, in); break;
    case Op::SendStart: check_send(w, in); return try_message(w);
    case Op::RecvStart: return try_message(w);
    case Op::SendWait:
    case Op::RecvWait: wait(w, in); break;
    case Op::AllReduceStart:
    case Op::Verdict: return try_together(w);
    case Op::AllReduceWait: reduce_wait(w, in); break;
    case Op::Update: update(w, in); break;
    case Op::FreeSlot: free_slot(w, in); break;
    case Op::Recompute:
    case Op::ReduceScatterStart:
    case Op::ReduceScatterWait:
    case Op::AllGatherStart:
    case Op::AllGatherWait:
    case Op::PushVersion:
    case Op::Snapshot: fail(w, "the operation has no rule in this version");
  }
  advance(w);
  return true;
}

bool Machine::try_message(int w) {
  const Instr& in = current(w);
  if (!waits_alike(in, in.peer)) return false;
  const bool sends = in.op == Op::SendStart;
  const int sender = sends ? w : in.peer, receiver = sends ? in.peer : w;
  check_send(sender, current(sender));
  receive(receiver, current(receiver));
  send(sender, current(sender));
  advance(sender);
  advance(receiver);
  return true;
}

// A reduction's members, or all workers for the verdict, at once.
bool Machine::try_together(int w) {
  const Instr& in = current(w);
  const std::vector<int> all = members(in);
  for (const int other : all)
    if (other != w && !waits_alike(in, other)) return false;
  for (const int other : all) {
    if (in.op == Op::Verdict)
      verdict(other);
    else
      reduce_start(other, current(other));
  }
  for (const int other : all) advance(other);
  return true;
}

std::vector<int> Machine::members(const Instr& in) const {
  std::vector<int> out;
  if (in.op == Op::Verdict)
    for (int w = 0; w < schedule_.depth; ++w) out.push_back(w);
  else
    for (const Holder& h : schedule_.groups[at(in.group)].holders) out.push_back(h.worker);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

// `other` is at the partner of `mine`; the contents agree by verify_order.
bool Machine::waits_alike(const Instr& mine, int other) const {
  if (ended(other)) return false;
  const Instr& theirs = current(other);
  if (mine.op == Op::Verdict) return theirs.op == Op::Verdict;
  if (mine.op == Op::AllReduceStart) return theirs.op == mine.op && theirs.group == mine.group;
  const Op partner = mine.op == Op::SendStart ? Op::RecvStart : Op::SendStart;
  return theirs.op == partner && theirs.pipe == mine.pipe && theirs.micro == mine.micro &&
         theirs.message == mine.message &&
         schedule_.placement[at(theirs.pipe)][at(mine.stage)] == theirs.peer;
}

// Follows who waits for whom from the first worker that is stuck, until the circle closes or ends
// at a worker whose program is over.
void Machine::report_deadlock() const {
  int w = 0;
  while (ended(w)) ++w;
  std::vector<bool> seen(at(schedule_.depth));
  std::string chain = "deadlock under blocking rendezvous: ";
  while (true) {
    chain += place_of(schedule_, w, workers_[at(w)].next);
    if (ended(w)) Fail(chain, ", which will not come");
    if (seen[at(w)]) Fail(chain, ": a circle");
    seen[at(w)] = true;
    const Instr& in = current(w);
    int next = in.peer;
    if (in.op == Op::AllReduceStart || in.op == Op::Verdict)
      for (const int other : members(in))
        if (other != w && !waits_alike(in, other)) {
          next = other;
          break;
        }
    chain += " waits for ";
    w = next;
  }
}

void Machine::check_end() const {
  for (int w = 0; w < schedule_.depth; ++w) {
    int tick = -1, index = 0;
    for (const Instr& in : schedule_.programs[at(w)].body) {
      if (is_compute(in.op) && in.tick <= tick)
        fail_at(schedule_, w, index, "a worker computes one thing per tick, in their order");
      if (is_compute(in.op)) tick = in.tick;
      ++index;
    }
  }
  for (int m = 0; m < schedule_.micro_batches; ++m) {
    const int pipe = pipe_of_[at(m)];
    ENSURE(pipe >= 0, "micro-batch ", m, " is never run");
    for (int s = 0; s < S_; ++s) {
      const int w = schedule_.placement[at(pipe)][at(s)];
      const MicroState& state = micro(s, m);
      const auto missing = [&](const char* what) {
        fail(w, "stage ", s, " has no ", what, " of micro-batch ", m, " (pipe ", pipe, ")");
      };
      if (!state.forward) missing("Forward");
      if (!schedule_.forward_only && !state.backward) missing("Backward");
    }
  }
  for (int w = 0; w < schedule_.depth; ++w) {
    const WorkerState& worker = workers_[at(w)];
    if (!worker.under_way.empty())
      fail(w, "'", to_string(worker.under_way.front()), "' has no wait: something is left live");
    for (int i = 0; i < schedule_.slots[at(w)]; ++i)
      if (worker.slots[at(i)].stage >= 0)
        fail(w, "slot ", i, " is never freed: ", unfinished_reason(worker.slots[at(i)]));
    if (schedule_.forward_only) continue;
    if (!worker.verdict) fail(w, "there is no Verdict");
    for (std::size_t s = 0; s < worker.held.size(); ++s) {
      if (worker.held[s] && !worker.updated[s]) fail(w, "stage ", s, " is never updated");
      if (worker.reductions[s] == Reduction::Started)
        fail(w, "the reduction of stage ", s, " has no wait");
    }
  }
}

VerifyReport verify(const Schedule& schedule) {
  verify_shape(schedule);
  verify_order(schedule);
  return Machine(schedule).run();
}

}  // namespace chimera::schedule
