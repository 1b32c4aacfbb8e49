#include "simulate_machine.h"

#include <algorithm>

namespace chimera::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool starts_reduction(Op op) {
  return op == Op::AllReduceStart || op == Op::ReduceScatterStart || op == Op::AllGatherStart;
}
bool waits_for_reduction(Op op) {
  return op == Op::AllReduceWait || op == Op::ReduceScatterWait || op == Op::AllGatherWait;
}

}  // namespace

Machine::Machine(const SimulatedPrograms& programs, const Costs& costs, int steps, bool timeline)
    : programs_(programs), costs_(costs), steps_(steps), timeline_(timeline) {
  workers_.resize(programs.workers.size());
  for (std::size_t w = 0; w < workers_.size(); ++w)
    workers_[w].transfers.assign(at(programs.transfers[w] * (programs.lag + 1)), -1);
  waiting_.resize(programs.channels.size());
  link_free_.resize(at(programs.links));
  reductions_.resize(programs.reductions.size() * at(steps));
  verdicts_.resize(at(steps));
  out_.step_ends.assign(at(steps), 0);
  out_.workers.resize(workers_.size());
}

Run Machine::run() {
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
bool Machine::skip_to_next(Worker& w, const std::vector<Move>& body) const {
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

void Machine::advance(int worker) {
  Worker& w = workers_[at(worker)];
  const std::vector<Move>& body = programs_.workers[at(worker)];
  while (!w.finished) {
    if (!skip_to_next(w, body)) {
      w.finished = true;
      out_.makespan = std::max(out_.makespan, now_);
      return;
    }
    const Move& move = body[w.next];
    const int step = w.iteration + move.instr->step;
    if (!w.entered) {
      w.entered = true;
      w.since = now_;
      count_slots(worker, move.full_begin, move.edge_begin);
      begin(worker, move, step);
    }
    if (!complete(worker, move, step)) return;
    end(worker, move, step);
    w.entered = false;
    ++w.next;
  }
}

void Machine::begin(int worker, const Move& move, int step) {
  const Op op = move.instr->op;
  if (is_compute(op) || op == Op::Update) {
    occupy(worker, move);
  } else if (op == Op::SendStart || op == Op::RecvStart) {
    post_message(worker, move, step);
  } else if (starts_reduction(op)) {
    post_reduction(worker, reduction_id(move, step));
  } else if (op == Op::VerdictStart) {
    VerdictState& verdict = verdicts_[at(step)];
    if (++verdict.posted == static_cast<int>(workers_.size()))
      push(now_ + costs_.verdict, Kind::Verdict, step);
  }
}

bool Machine::complete(int worker, const Move& move, int step) {
  const Op op = move.instr->op;
  if (is_compute(op) || op == Op::Update) return !workers_[at(worker)].occupied;
  if (op == Op::SendWait || op == Op::RecvWait || (op == Op::SendStart && costs_.blocking_sends)) {
    const int id = transfer_of(worker, move, step);
    return id >= 0 && transfers_[at(id)].done;
  }
  if (waits_for_reduction(op) || (starts_reduction(op) && costs_.reductions_inline))
    return reductions_[at(reduction_id(move, step))].done;
  return op != Op::VerdictWait || verdicts_[at(step)].done;
}

void Machine::end(int worker, const Move& move, int step) {
  Worker& w = workers_[at(worker)];
  WorkerTimes& times = out_.workers[at(worker)];
  const Op op = move.instr->op;
  count_slots(worker, move.full_end, move.edge_end);
  if (is_compute(op) || op == Op::Update) {
    const double idle = w.started - w.last_end;
    (op == Op::Update ? times.tail : w.computed ? times.middle : times.startup) += idle;
    w.computed = w.computed || op != Op::Update;
    w.last_end = now_;
    if (timeline_) times.cells.push_back({w.started, now_, step, *move.instr});
  } else if (op == Op::VerdictWait) {
    times.verdict_wait += now_ - w.since;
  } else if (move.reduction >= 0) {
    times.reduction_wait += now_ - w.since;
  } else if (move.transfer >= 0) {
    times.message_wait += now_ - w.since;
  }
  if (is_compute(op) || op == Op::Update || op == Op::AllGatherWait)
    out_.step_ends[at(step)] = std::max(out_.step_ends[at(step)], now_);
}

void Machine::count_slots(int worker, int full, int edge) {
  if (full == 0 && edge == 0) return;
  Worker& w = workers_[at(worker)];
  WorkerTimes& times = out_.workers[at(worker)];
  w.full_slots += full;
  w.edge_slots += edge;
  times.full_slots = std::max(times.full_slots, w.full_slots);
  times.edge_slots = std::max(times.edge_slots, w.edge_slots);
  if (timeline_) times.memory.push_back({now_, w.full_slots, w.edge_slots});
}

void Machine::occupy(int worker, const Move& move) {
  Worker& w = workers_[at(worker)];
  w.started = w.updated = now_;
  w.remaining = move.seconds;
  w.occupied = move.seconds > 0;
  w.speed = w.reducing ? 1 - costs_.contention : 1;
  if (w.occupied) push(now_ + w.remaining / w.speed, Kind::Occupation, worker, ++w.generation);
}

// A reduction in the worker's background has begun or ended.
void Machine::change_speed(int worker) {
  Worker& w = workers_[at(worker)];
  if (!w.occupied || costs_.contention == 0) return;
  w.remaining = std::max(0.0, w.remaining - (now_ - w.updated) * w.speed);
  w.updated = now_;
  w.speed = w.reducing ? 1 - costs_.contention : 1;
  push(now_ + w.remaining / w.speed, Kind::Occupation, worker, ++w.generation);
}

int& Machine::transfer_of(int worker, const Move& move, int step) {
  const int steps = programs_.lag + 1;  // alive at once
  return workers_[at(worker)].transfers[at(move.transfer * steps + step % steps)];
}

void Machine::post_message(int worker, const Move& move, int step) {
  const bool sends = move.instr->op == Op::SendStart;
  std::deque<int>& waiting = waiting_[at(move.channel)];
  const auto posted = [&](int id) {
    return sends ? transfers_[at(id)].sent : transfers_[at(id)].received;
  };
  int id = static_cast<int>(transfers_.size());
  if (!waiting.empty() && !posted(waiting.front())) {
    id = waiting.front();
    waiting.pop_front();
  } else {
    transfers_.push_back({.channel = move.channel});
    waiting.push_back(id);
  }
  Transfer& transfer = transfers_[at(id)];
  (sends ? transfer.sent : transfer.received) = true;
  if (sends) transfer.bytes = move.instr->count * costs_.message_bytes;
  transfer_of(worker, move, step) = id;
  if (costs_.rendezvous ? transfer.sent && transfer.received : sends) begin_transfer(id);
}

// One message at a time on a link; the next may begin while the last byte is still on its way.
void Machine::begin_transfer(int id) {
  const Channel& channel = programs_.channels[at(transfers_[at(id)].channel)];
  double& free = link_free_[at(channel.link)];
  free = std::max(now_, free) + channel.cost.seconds_per_byte * transfers_[at(id)].bytes;
  push(free + channel.cost.latency, Kind::Transfer, id);
}

int Machine::reduction_id(const Move& move, int step) const {
  return step * static_cast<int>(programs_.reductions.size()) + move.reduction;
}

void Machine::post_reduction(int worker, int id) {
  ++reductions_[at(id)].posted;
  workers_[at(worker)].queue.push_back(id);
  try_begin_reduction(id);
}

void Machine::try_begin_reduction(int id) {
  const Reduction& reduction = programs_.reductions[at(id) % programs_.reductions.size()];
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

void Machine::end_reduction(int id) {
  const std::size_t kinds = programs_.reductions.size();
  const Reduction& reduction = programs_.reductions[at(id) % kinds];
  Summing& sum = reductions_[at(id)];
  sum.done = true;
  for (const int member : reduction.members) {
    Worker& w = workers_[at(member)];
    w.queue.pop_front();
    w.reducing = false;
    change_speed(member);
    ready_.push_back(member);
    if (!timeline_) continue;
    const std::vector<Move>& body = programs_.workers[at(member)];
    const int index = static_cast<int>(at(id) % kinds);
    const auto start = std::ranges::find_if(body, [&](const Move& move) {
      return move.reduction == index && starts_reduction(move.instr->op);
    });
    out_.workers[at(member)].reductions.push_back(
        {sum.started, now_, static_cast<int>(at(id) / kinds), *start->instr});
  }
  for (const int member : reduction.members)
    if (!workers_[at(member)].queue.empty())
      try_begin_reduction(workers_[at(member)].queue.front());
}

void Machine::handle(const Event& event) {
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
    case Kind::Verdict:
      verdicts_[at(event.id)].done = true;
      for (int w = 0; w < static_cast<int>(workers_.size()); ++w) ready_.push_back(w);
      return;
  }
}

void Machine::push(double time, Kind kind, int id, int generation) {
  events_.push({time, order_++, kind, id, generation});
}

void Machine::fail_stuck() const {
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
