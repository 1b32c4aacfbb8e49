#include "simulate_machine.h"

#include <algorithm>

#include "at.h"

namespace chimera::schedule {
namespace {

// GradNorm starts and waits.
bool starts_reduction(Op op) {
  return op == Op::AllReduceStart || op == Op::ReduceScatterStart || op == Op::GradNorm ||
         op == Op::AllGatherStart;
}
bool waits_for_reduction(Op op) {
  return op == Op::AllReduceWait || op == Op::ReduceScatterWait || op == Op::GradNorm ||
         op == Op::AllGatherWait;
}

}  // namespace

EventMachine::EventMachine(const SimulatedPrograms& programs, const Costs& costs, int steps,
                           bool timeline)
    : programs_(programs), costs_(costs), steps_(steps), timeline_(timeline) {
  workers_.resize(programs.workers.size());
  for (std::size_t w = 0; w < workers_.size(); ++w)
    workers_[w].transfers.assign(at(programs.transfers[w] * (programs.lag + 1)), -1);
  waiting_.resize(programs.channels.size());
  link_free_.resize(at(programs.links));
  reductions_.resize(programs.reductions.size() * at(steps));
  step_syncs_.resize(at(steps));
  out_.step_ends.assign(at(steps), 0);
  out_.workers.resize(workers_.size());
}

SimulatedRun EventMachine::run() {
  for (int w = static_cast<int>(workers_.size()); w-- > 0;) ready_.push_back(w);
  while (true) {
    while (!ready_.empty()) {
      const int worker = ready_.back();
      ready_.pop_back();
      advance(worker);
    }
    if (events_.empty()) break;
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    handle(event);
  }
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (!workers_[w].finished) fail_stuck();
    out_.workers[w].tail += out_.makespan - workers_[w].last_end;
  }
  return std::move(out_);
}

// The next instruction whose step is within the run; false after the last.
bool EventMachine::skip_to_next(Worker& w, const std::vector<TimedInstr>& body) const {
  while (w.iteration < steps_ + programs_.lag) {
    for (; w.next < body.size(); ++w.next) {
      const int step = w.iteration + body[w.next].instr->step;
      if (step >= 0 && step < steps_) return true;
    }
    ++w.iteration;
    w.next = 0;
    w.computed = false;
  }
  return false;
}

void EventMachine::advance(int worker) {
  Worker& w = workers_[at(worker)];
  const std::vector<TimedInstr>& body = programs_.workers[at(worker)];
  while (!w.finished) {
    if (!skip_to_next(w, body)) {
      w.finished = true;
      out_.makespan = std::max(out_.makespan, now_);
      return;
    }
    const TimedInstr& timed = body[w.next];
    const int step = w.iteration + timed.instr->step;
    if (!w.entered) {
      w.entered = true;
      w.since = now_;
      count_buffers(worker, timed.activations_begin, timed.boundary_begin);
      begin(worker, timed, step);
    }
    if (!complete(worker, timed, step)) return;
    end(worker, timed, step);
    w.entered = false;
    ++w.next;
  }
}

void EventMachine::begin(int worker, const TimedInstr& timed, int step) {
  const Op op = timed.instr->op;
  if (is_compute(op) || op == Op::Update) {
    occupy(worker, timed);
  } else if (op == Op::SendStart || op == Op::RecvStart) {
    post_message(worker, timed, step);
  } else if (starts_reduction(op)) {
    post_reduction(worker, reduction_id(timed, step));
  } else if (op == Op::StepSyncStart) {
    StepSyncState& step_sync = step_syncs_[at(step)];
    if (++step_sync.posted == static_cast<int>(workers_.size()))
      push(now_ + costs_.step_sync, Kind::StepSync, step);
  }
}

bool EventMachine::complete(int worker, const TimedInstr& timed, int step) {
  const Op op = timed.instr->op;
  if (is_compute(op) || op == Op::Update) return !workers_[at(worker)].occupied;
  if (op == Op::SendWait || op == Op::RecvWait || (op == Op::SendStart && costs_.blocking_sends)) {
    const int id = transfer_of(worker, timed, step);
    return id >= 0 && transfers_[at(id)].done;
  }
  if (waits_for_reduction(op) || (starts_reduction(op) && costs_.reductions_inline))
    return reductions_[at(reduction_id(timed, step))].done;
  return op != Op::StepSyncWait || step_syncs_[at(step)].done;
}

void EventMachine::end(int worker, const TimedInstr& timed, int step) {
  Worker& w = workers_[at(worker)];
  WorkerTimes& times = out_.workers[at(worker)];
  const Op op = timed.instr->op;
  count_buffers(worker, timed.activations_end, timed.boundary_end);
  if (is_compute(op) || op == Op::Update) {
    const double idle = w.started - w.last_end;
    (op == Op::Update ? times.tail : w.computed ? times.middle : times.startup) += idle;
    w.computed = w.computed || op != Op::Update;
    w.last_end = now_;
    if (timeline_) times.cells.push_back({w.started, now_, step, *timed.instr});
  } else if (op == Op::StepSyncWait) {
    times.step_sync_wait += now_ - w.since;
  } else if (timed.reduction >= 0) {
    times.reduction_wait += now_ - w.since;
  } else if (timed.transfer >= 0) {
    times.message_wait += now_ - w.since;
  }
  if (is_compute(op) || op == Op::Update || op == Op::AllGatherWait)
    out_.step_ends[at(step)] = std::max(out_.step_ends[at(step)], now_);
}

void EventMachine::count_buffers(int worker, int activations, int boundary) {
  if (activations == 0 && boundary == 0) return;
  Worker& w = workers_[at(worker)];
  WorkerTimes& times = out_.workers[at(worker)];
  w.activation_buffers += activations;
  w.boundary_buffers += boundary;
  times.activation_buffers = std::max(times.activation_buffers, w.activation_buffers);
  times.boundary_buffers = std::max(times.boundary_buffers, w.boundary_buffers);
  if (timeline_) times.memory.push_back({now_, w.activation_buffers, w.boundary_buffers});
}

void EventMachine::occupy(int worker, const TimedInstr& timed) {
  Worker& w = workers_[at(worker)];
  w.started = w.updated = now_;
  w.remaining = timed.seconds;
  w.occupied = timed.seconds > 0;
  w.speed = w.reducing ? 1 - costs_.contention : 1;
  if (w.occupied) push(now_ + w.remaining / w.speed, Kind::Occupation, worker, ++w.generation);
}

// A reduction in the worker's background has begun or ended.
void EventMachine::change_speed(int worker) {
  Worker& w = workers_[at(worker)];
  if (!w.occupied || costs_.contention == 0) return;
  w.remaining = std::max(0.0, w.remaining - (now_ - w.updated) * w.speed);
  w.updated = now_;
  w.speed = w.reducing ? 1 - costs_.contention : 1;
  push(now_ + w.remaining / w.speed, Kind::Occupation, worker, ++w.generation);
}

int& EventMachine::transfer_of(int worker, const TimedInstr& timed, int step) {
  const int steps = programs_.lag + 1;  // alive at once
  return workers_[at(worker)].transfers[at(timed.transfer * steps + step % steps)];
}

void EventMachine::post_message(int worker, const TimedInstr& timed, int step) {
  const bool sends = timed.instr->op == Op::SendStart;
  std::deque<int>& waiting = waiting_[at(timed.channel)];
  const auto posted = [&](int id) {
    return sends ? transfers_[at(id)].sent : transfers_[at(id)].received;
  };
  int id = static_cast<int>(transfers_.size());
  if (!waiting.empty() && !posted(waiting.front())) {
    id = waiting.front();
    waiting.pop_front();
  } else {
    transfers_.push_back({.channel = timed.channel});
    waiting.push_back(id);
  }
  Transfer& transfer = transfers_[at(id)];
  (sends ? transfer.sent : transfer.received) = true;
  if (sends) transfer.bytes = timed.instr->count * costs_.message_bytes;
  transfer_of(worker, timed, step) = id;
  if (costs_.rendezvous ? transfer.sent && transfer.received : sends) begin_transfer(id);
}

// One message at a time on a link; the next may begin while the last byte is still on its way.
void EventMachine::begin_transfer(int id) {
  const TimedChannel& channel = programs_.channels[at(transfers_[at(id)].channel)];
  double& free = link_free_[at(channel.link)];
  free = std::max(now_, free) + channel.cost.seconds_per_byte * transfers_[at(id)].bytes;
  push(free + channel.cost.latency, Kind::Transfer, id);
}

int EventMachine::reduction_id(const TimedInstr& timed, int step) const {
  return step * static_cast<int>(programs_.reductions.size()) + timed.reduction;
}

void EventMachine::post_reduction(int worker, int id) {
  ++reductions_[at(id)].posted;
  workers_[at(worker)].queue.push_back(id);
  try_begin_reduction(id);
}

void EventMachine::try_begin_reduction(int id) {
  const TimedReduction& reduction = programs_.reductions[at(id) % programs_.reductions.size()];
  Summing& sum = reductions_[at(id)];
  if (sum.begun || sum.posted < static_cast<int>(reduction.members.size())) return;
  for (const int member : reduction.members)
    if (workers_[at(member)].queue.front() != id) return;
  sum.begun = true;
  sum.started = now_;
  for (const int member : reduction.members) {
    workers_[at(member)].reducing = true;
    change_speed(member);
  }
  push(now_ + reduction.seconds, Kind::Reduction, id);
}

void EventMachine::end_reduction(int id) {
  const std::size_t kinds = programs_.reductions.size();
  const TimedReduction& reduction = programs_.reductions[at(id) % kinds];
  Summing& sum = reductions_[at(id)];
  sum.done = true;
  for (const int member : reduction.members) {
    Worker& w = workers_[at(member)];
    w.queue.pop_front();
    w.reducing = false;
    change_speed(member);
    ready_.push_back(member);
    if (!timeline_) continue;
    const std::vector<TimedInstr>& body = programs_.workers[at(member)];
    const int index = static_cast<int>(at(id) % kinds);
    const auto start = std::ranges::find_if(body, [&](const TimedInstr& timed) {
      return timed.reduction == index && starts_reduction(timed.instr->op);
    });
    out_.workers[at(member)].reductions.push_back(
        {sum.started, now_, static_cast<int>(at(id) / kinds), *start->instr});
  }
  for (const int member : reduction.members)
    if (!workers_[at(member)].queue.empty())
      try_begin_reduction(workers_[at(member)].queue.front());
}

void EventMachine::handle(const Event& event) {
  switch (event.kind) {
    case Kind::Occupation: {
      Worker& w = workers_[at(event.id)];
      if (event.generation != w.generation) return;  // its speed has changed since
      w.occupied = false;
      ready_.push_back(event.id);
      return;
    }
    case Kind::Transfer: {
      Transfer& transfer = transfers_[at(event.id)];
      transfer.done = true;
      ready_.push_back(programs_.channels[at(transfer.channel)].source);
      ready_.push_back(programs_.channels[at(transfer.channel)].destination);
      return;
    }
    case Kind::Reduction: return end_reduction(event.id);
    case Kind::StepSync:
      step_syncs_[at(event.id)].done = true;
      for (int w = 0; w < static_cast<int>(workers_.size()); ++w) ready_.push_back(w);
      return;
  }
}

void EventMachine::push(double time, Kind kind, int id, int generation) {
  events_.push({time, order_++, kind, id, generation});
}

void EventMachine::fail_stuck() const {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const Worker& worker = workers_[w];
    if (!worker.finished)
      Fail("the schedule cannot be executed: worker ", w, " waits for ever at body[", worker.next,
           "] ", to_string(*programs_.workers[w][worker.next].instr), " of iteration ",
           worker.iteration, "; `chimera schedule verify` says why");
  }
  Fail("the schedule cannot be executed");
}

}  // namespace chimera::schedule
