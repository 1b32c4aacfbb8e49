// Execution of all programs against each other. A send and its receive, the members of a reduction,
// and all workers at the step synchronisation block until the others are there: if this ends, so
// does every run, since real transports only ever block less.
#include "chimera/schedule/verify.h"

#include <algorithm>

#include "verify_state.h"

namespace chimera::schedule {

Machine::Machine(const Schedule& schedule, int steps)
    : schedule_(schedule),
      S_(schedule.stages()),
      steps_(steps),
      lag_(schedule.lag()),
      span_(schedule.span()),
      recomputes_(schedule.has(Op::Recompute)),
      workers_(at(schedule.depth)) {
  micros_.resize(at(steps) * at(S_) * at(schedule.micro_batches));
  pipe_of_.assign(at(schedule.micro_batches), -1);
  for (int w = 0; w < schedule.depth; ++w) {
    WorkerState& worker = workers_[at(w)];
    worker.groups.resize(schedule.groups.size());
    worker.last_backward.assign(at(schedule.pipes() * S_), -1);
    report_.workers.push_back({});
    report_.instructions += static_cast<Index>(schedule.programs[at(w)].body.size());
  }
  for (const Group& group : schedule.groups)
    for (const Holder& h : group.holders) {
      workers_[at(h.worker)].groups[at(group.stage)].held = true;
      int& versions = report_.workers[at(h.worker)].versions;
      versions = std::max(versions, schedule.versions[at(group.stage)]);
    }
  for (int w = 0; w < schedule.depth; ++w)
    for (const Instr& in : schedule.programs[at(w)].body)
      if (in.op == Op::Forward)
        for (int m = in.micro; m < in.micro + in.count; ++m)
          if (pipe_of_[at(m)] < 0) pipe_of_[at(m)] = in.pipe;
}

VerifyReport Machine::run() {
  for (int w = 0; w < schedule_.depth; ++w) skip(w);
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

void Machine::advance(int worker) {
  ++workers_[at(worker)].next;
  skip(worker);
}

void Machine::skip(int w) {
  WorkerState& worker = workers_[at(w)];
  const int size = static_cast<int>(schedule_.programs[at(w)].body.size());
  while (!ended(w)) {
    if (worker.next == size) {
      worker.next = 0;
      ++worker.iteration;
    } else if (step(w) < 0 || step(w) >= steps_) {
      ++worker.next;
    } else {
      return;
    }
  }
}

// Executes the worker's next instruction, together with its partners where it needs them. False:
// some partner is not there yet.
bool Machine::try_step(int w) {
  const Instr& in = current(w);
  check_training(w, in);
  switch (in.op) {
    case Op::LoadMicro: load(w, in); break;
    case Op::Forward: forward(w, in); break;
    case Op::Recompute: recompute(w, in); break;
    case Op::Backward:
    case Op::BackwardInput:
    case Op::BackwardWeight: backward(w, in); break;
    case Op::SendStart: check_send(w, in); return try_message(w);
    case Op::RecvStart: return try_message(w);
    case Op::SendWait:
    case Op::RecvWait: wait(w, in); break;
    case Op::AllReduceStart:
    case Op::ReduceScatterStart:
    case Op::GradNorm:
    case Op::AllGatherStart:
    case Op::StepSyncStart: return try_together(w);
    case Op::AllReduceWait:
    case Op::ReduceScatterWait: reduce_wait(w, in); break;
    case Op::AllGatherWait: gather_wait(w, in); break;
    case Op::StepSyncWait: step_sync_wait(w); break;
    case Op::Update: update(w, in); break;
    case Op::Release: release(w, in); break;
  }
  advance(w);
  return true;
}

bool Machine::try_message(int w) {
  const Instr& in = current(w);
  if (!waits_alike(w, in.peer)) return false;
  const bool sends = in.op == Op::SendStart;
  const int sender = sends ? w : in.peer, receiver = sends ? in.peer : w;
  check_send(sender, current(sender));
  receive(receiver, current(receiver));
  send(sender, current(sender));
  advance(sender);
  advance(receiver);
  return true;
}

// The members of a collective, or all workers for the step synchronisation, at once.
bool Machine::try_together(int w) {
  const Instr in = current(w);
  const std::vector<int> all = members(in);
  for (const int other : all)
    if (other != w && !waits_alike(w, other)) return false;
  for (const int other : all) {
    if (in.op == Op::StepSyncStart)
      step_sync_start(other);
    else if (in.op == Op::GradNorm)
      grad_norm(other, current(other));
    else if (in.op == Op::AllGatherStart)
      gather_start(other, current(other));
    else
      reduce_start(other, current(other));
  }
  for (const int other : all) advance(other);
  return true;
}

std::vector<int> Machine::members(const Instr& in) const {
  std::vector<int> out;
  if (in.op == Op::StepSyncStart)
    for (int w = 0; w < schedule_.depth; ++w) out.push_back(w);
  else
    for (const Holder& h : schedule_.groups[at(in.group)].holders) out.push_back(h.worker);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

// `other` is at the partner of what `w` is at; the contents agree by verify_order.
bool Machine::waits_alike(int w, int other) const {
  if (ended(other)) return false;
  const Instr &mine = current(w), &theirs = current(other);
  if (step(w) != step(other)) return false;
  if (mine.op == Op::StepSyncStart) return theirs.op == mine.op;
  if (mine.group >= 0) return theirs.op == mine.op && theirs.group == mine.group;
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
    const int size = static_cast<int>(schedule_.programs[at(w)].body.size());
    chain += place_of(schedule_, w, ended(w) ? size : workers_[at(w)].next);
    if (ended(w)) Fail(chain, ", which will not come");
    if (seen[at(w)]) Fail(chain, ": a circle");
    seen[at(w)] = true;
    const Instr& in = current(w);
    int next = in.peer;
    if (in.group >= 0 || in.op == Op::StepSyncStart)
      for (const int other : members(in))
        if (other != w && !waits_alike(w, other)) {
          next = other;
          break;
        }
    chain += " waits for ";
    w = next;
  }
}

void Machine::check_ticks() const {
  for (int w = 0; w < schedule_.depth; ++w) {
    int tick = -1, index = 0;
    for (const Instr& in : schedule_.programs[at(w)].body) {
      const bool counts = is_compute(in.op) && in.op != Op::Recompute;
      if (counts && in.tick <= tick)
        fail_at(schedule_, w, index, "a worker computes one thing per tick, in their order");
      if (counts) tick = in.tick;
      ++index;
    }
  }
}

void Machine::check_end() const {
  check_ticks();
  const auto lacks = [&](int w, const std::string& what) {
    fail_at(schedule_, w, static_cast<int>(schedule_.programs[at(w)].body.size()), what);
  };
  for (int m = 0; m < schedule_.micro_batches; ++m) {
    const int pipe = pipe_of_[at(m)];
    ENSURE(pipe >= 0, "micro-batch ", m, " is never run");
    for (int s = 0; s < S_; ++s) {
      const int w = schedule_.placement[at(pipe)][at(s)];
      const MicroState& state = micro(steps_ - 1, s, m);
      const auto missing = [&](const char* what) {
        lacks(w,
              concat("stage ", s, " has no ", what, " of micro-batch ", m, " (pipe ", pipe, ")"));
      };
      if (!state.forward) missing("Forward");
      if (!schedule_.forward_only && !state.backward) missing("Backward");
    }
  }
  for (int w = 0; w < schedule_.depth; ++w) {
    const WorkerState& worker = workers_[at(w)];
    if (!worker.under_way.empty())
      lacks(w, concat("'", to_string(worker.under_way.front()),
                      "' has no wait: something is left live"));
    for (const auto& [key, lease] : worker.leases)
      lacks(w, concat("the buffer of stage ", std::get<1>(key), ", micro-batch ",
                      std::get<2>(key) * span_, ", is never released"));
    if (schedule_.forward_only) continue;
    if (worker.step_syncs < steps_) lacks(w, "there is no StepSyncWait");
    for (std::size_t s = 0; s < worker.groups.size(); ++s) {
      const GroupState& group = worker.groups[s];
      if (!group.held) continue;
      if (group.updates < steps_) lacks(w, concat("stage ", s, " is never updated"));
      if (group.reduced < group.started)
        lacks(w, concat("the reduction of stage ", s, " has no wait"));
      if (group.scatters && group.gathered < steps_)
        lacks(w, concat("the shards of stage ", s, " are never gathered"));
    }
  }
}

// A run of one step, and one that fills, repeats its steady iteration and drains: after every
// further steady iteration the state is that of the one before, one step later.
VerifyReport verify(const Schedule& schedule) {
  verify_shape(schedule);
  verify_order(schedule);
  if (const int lag = schedule.lag(); lag > 0) {
    Machine(schedule, 1).run();
    return Machine(schedule, lag + 2).run();
  }
  return Machine(schedule, 1).run();
}

}  // namespace chimera::schedule
