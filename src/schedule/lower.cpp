// Lowering. One global order: per tick the computations, then the messages they make, gradients
// before activations, then by pipe and stage. Every worker posts its half of a message at the
// message's place in that order, so blocking rendezvous cannot deadlock.
#include "chimera/schedule/lower.h"

#include <algorithm>
#include <deque>
#include <tuple>

namespace chimera::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A computation of the plan and the worker that does it.
struct Work {
  int worker;
  const Instr* instr;
};

std::vector<Work> in_global_order(const ComputePlan& plan) {
  std::vector<Work> all;
  for (int w = 0; w < plan.depth; ++w) {
    const std::vector<Instr>& list = plan.workers[at(w)];
    for (std::size_t i = 0; i < list.size(); ++i) {
      ENSURE(i == 0 || list[i - 1].tick < list[i].tick, "schedule ", plan.name, ": worker ", w,
             " has both ", to_string(list[i - 1]), " and ", to_string(list[i]), " in one tick");
      all.push_back({w, &list[i]});
    }
  }
  std::ranges::stable_sort(all, {}, [](const Work& work) { return work.instr->tick; });
  return all;
}

// Micro-batches of one slot: as many as the widest computation spans.
int slot_span(const ComputePlan& plan) {
  int span = 1;
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list) span = std::max(span, in.count);
  return span;
}

class Lowering {
 public:
  Lowering(const ComputePlan& plan, const LowerOptions& options)
      : plan_(plan), S_(plan.stages()), span_(slot_span(plan)), order_(in_global_order(plan)) {
    out_.name = plan.name;
    out_.depth = plan.depth;
    out_.micro_batches = plan.micro_batches;
    out_.pipeline_pairs = plan.pipeline_pairs;
    out_.virtual_stages = plan.virtual_stages;
    out_.tied = options.tied;
    out_.width = options.width;
    out_.forward_only = plan.forward_only;
    out_.placement = plan.placement;
    out_.groups = make_groups(plan.placement, options.tied);
    out_.programs.resize(at(plan.depth));
    out_.input_slots.assign(at(plan.depth), 0);
    pools_.resize(at(plan.depth));
  }

  Schedule run() {
    size_pools();
    residents_.assign(at(S_ * blocks()), {});
    for (std::size_t i = 0; i < order_.size();) {
      const int tick = order_[i].instr->tick;
      for (; i < order_.size() && order_[i].instr->tick == tick; ++i) compute(order_[i]);
      exchange();
    }
    finish_step(order_.empty() ? 0 : order_.back().instr->tick + 1);
    return std::move(out_);
  }

 private:
  // One slot's worth of micro-batches at one stage, from its first message or load to its last use.
  struct Resident {
    int slot = -1;
    int finished = 0;             // micro-batches that need the slot no more
    std::vector<Instr> sends;     // started, not waited for
    std::vector<Instr> arriving;  // receives started, not waited for
  };
  struct Pool {
    std::deque<int> free;             // the slot freed longest ago first
    std::vector<Resident*> previous;  // per slot: who had it, when its sends still need a wait
  };
  struct Outgoing {
    int worker;
    Instr send;
  };

  int blocks() const { return (plan_.micro_batches + span_ - 1) / span_; }
  int block_size(int micro) const {
    return std::min(span_, plan_.micro_batches - micro / span_ * span_);
  }
  Resident& resident(const Instr& in) {
    return residents_[at(in.stage * blocks() + in.micro / span_)];
  }
  int host(int pipe, int stage) const { return plan_.placement[at(pipe)][at(stage)]; }
  bool makes_input_gradient(Op op) const { return op == Op::Backward || op == Op::BackwardInput; }
  bool finishes(Op op) const {
    return plan_.forward_only ? op == Op::Forward : op == Op::Backward || op == Op::BackwardWeight;
  }
  // The stage's slot is kept beyond its last computation by a message to this neighbour.
  bool sends_last(int stage) const { return plan_.forward_only ? stage + 1 < S_ : stage > 0; }

  void emit(int worker, Instr in) { out_.programs[at(worker)].body.push_back(std::move(in)); }

  static Instr derived(const Instr& from, Op op, int tick, int slot) {
    Instr in = from;
    in.op = op;
    in.tick = tick;
    in.slot = slot;
    return in;
  }

  // The pool holds the most slots in use at once, plus one where a worker's last messages may still
  // be under way when the slot is not otherwise needed; never more than there are tenants.
  void size_pools() {
    struct Change {
      int position, delta;
    };
    std::vector<std::vector<Change>> changes(at(plan_.depth));
    std::vector<int> extra(at(plan_.depth)), finished(at(S_ * blocks()));
    std::vector<bool> seen(at(S_ * blocks()));
    for (const Work& work : order_) {
      const Instr& in = *work.instr;
      const auto enter = [&](int stage, int worker, int position) {
        const std::size_t key = at(stage * blocks() + in.micro / span_);
        if (!seen[key]) changes[at(worker)].push_back({position, +1});
        seen[key] = true;
      };
      if (in.op == Op::Forward && in.stage == 0) enter(0, work.worker, 2 * in.tick);
      if (in.op == Op::Forward && in.stage + 1 < S_)
        enter(in.stage + 1, host(in.pipe, in.stage + 1), 2 * in.tick + 1);
      if (!finishes(in.op)) continue;
      int& done = finished[at(in.stage * blocks() + in.micro / span_)];
      if ((done += in.count) == block_size(in.micro))
        changes[at(work.worker)].push_back({2 * in.tick, -1});
      if (sends_last(in.stage)) extra[at(work.worker)] = 1;
    }
    for (int w = 0; w < plan_.depth; ++w) {
      std::ranges::stable_sort(changes[at(w)], [](const Change& a, const Change& b) {
        return std::tuple(a.position, -a.delta) < std::tuple(b.position, -b.delta);
      });
      int used = 0, most = 0, tenants = 0;
      for (const Change& change : changes[at(w)]) {
        most = std::max(most, used += change.delta);
        tenants += change.delta > 0;
      }
      out_.slots.push_back(std::min(most + extra[at(w)], tenants));
      pools_[at(w)].previous.resize(at(out_.slots.back()));
      for (int slot = 0; slot < out_.slots.back(); ++slot) pools_[at(w)].free.push_back(slot);
    }
  }

  void wait_for_sends(int worker, Resident& r, int tick) {
    for (const Instr& send : r.sends) emit(worker, derived(send, Op::SendWait, tick, r.slot));
    r.sends.clear();
  }

  void free_slot(int worker, Resident& r, int tick) {
    wait_for_sends(worker, r, tick);
    Instr in;
    in.tick = tick;
    in.op = Op::FreeSlot;
    in.slot = r.slot;
    emit(worker, std::move(in));
    pools_[at(worker)].previous[at(r.slot)] = nullptr;
  }

  void acquire(int worker, Resident& r, int tick) {
    if (r.slot >= 0) return;
    Pool& pool = pools_[at(worker)];
    ENSURE(!pool.free.empty(), "schedule ", plan_.name, ": worker ", worker,
           " has no slot at tick ", tick);
    const int slot = pool.free.front();
    pool.free.pop_front();
    if (Resident* previous = pool.previous[at(slot)]) free_slot(worker, *previous, tick);
    r.slot = slot;
    pool.previous[at(slot)] = nullptr;
  }

  void receive(int worker, const Instr& in, Message message, Resident& r) {
    const auto needed = [&](const Instr& recv) {
      return recv.message == message && recv.micro < in.micro + in.count &&
             in.micro < recv.micro + recv.count;
    };
    int arrived = 0;
    for (const Instr& recv : r.arriving)
      if (needed(recv)) emit(worker, derived(recv, Op::RecvWait, in.tick, r.slot)), ++arrived;
    std::erase_if(r.arriving, needed);
    ENSURE(arrived > 0 || in.count < span_, "schedule ", plan_.name, ": worker ", worker, " runs ",
           to_string(in), " before its ", to_string(message), " is made");
  }

  void compute(const Work& work) {
    const Instr& in = *work.instr;
    const bool first = in.stage == 0, last = in.stage == S_ - 1;
    ENSURE(in.micro >= 0 && in.count >= 1 && in.micro + in.count <= plan_.micro_batches &&
               in.micro / span_ == (in.micro + in.count - 1) / span_,
           "schedule ", plan_.name, ": ", to_string(in), " crosses slots of ", span_,
           " micro-batches");
    Resident& r = resident(in);
    if (in.op == Op::Forward) {
      if (first) acquire(work.worker, r, in.tick);
      if (first || last) emit(work.worker, derived(in, Op::LoadMicro, in.tick, r.slot));
      if (!first) receive(work.worker, in, Message::Activation, r);
      if (!last) send(work, in.stage + 1, Message::Activation);
    } else if (makes_input_gradient(in.op)) {
      if (!last) receive(work.worker, in, Message::Gradient, r);
      if (!first) send(work, in.stage - 1, Message::Gradient);
    }
    ENSURE(r.slot >= 0, "schedule ", plan_.name, ": ", to_string(in), " comes before its Forward");
    emit(work.worker, derived(in, in.op, in.tick, r.slot));
    if (finishes(in.op)) finish(work.worker, in, r);
  }

  void finish(int worker, const Instr& in, Resident& r) {
    if ((r.finished += in.count) < block_size(in.micro)) return;
    pools_[at(worker)].free.push_back(r.slot);
    if (sends_last(in.stage))
      pools_[at(worker)].previous[at(r.slot)] = &r;
    else
      free_slot(worker, r, in.tick);
  }

  void send(const Work& work, int to_stage, Message message) {
    Instr out = *work.instr;
    out.op = Op::SendStart;
    out.message = message;
    out.peer = host(out.pipe, to_stage);
    ENSURE(out.peer != work.worker, "schedule ", plan_.name, ": stages ", out.stage, " and ",
           to_stage, " of pipe ", out.pipe, " are on the same worker ", work.worker,
           "; neighbours exchange messages, so they must be on two");
    outbox_.push_back({work.worker, std::move(out)});
  }

  // The messages that this tick's computations made.
  void exchange() {
    std::ranges::stable_sort(outbox_, {}, [](const Outgoing& o) {
      return std::tuple(o.send.message != Message::Gradient, o.send.pipe, o.send.stage,
                        o.send.micro);
    });
    for (Outgoing& o : outbox_) {
      Resident& from = resident(o.send);
      o.send.slot = from.slot;
      emit(o.worker, o.send);
      from.sends.push_back(o.send);
      const int receiver = o.send.peer;
      Instr recv = derived(o.send, Op::RecvStart, o.send.tick, -1);
      recv.stage += o.send.message == Message::Activation ? 1 : -1;
      recv.peer = o.worker;
      Resident& to = resident(recv);
      acquire(receiver, to, recv.tick);
      wait_for_sends(receiver, to, recv.tick);  // long received: what comes now is computed from it
      recv.slot = to.slot;
      to.arriving.push_back(recv);
      emit(receiver, std::move(recv));
    }
    outbox_.clear();
  }

  // After the last computation: reductions, larger stage first since it is complete first, the tied
  // matrix at the end; sends still under way; the verdict; updates.
  void finish_step(int tick) {
    for (int w = 0; w < plan_.depth; ++w) {
      std::vector<int> held;  // stages with a contribution of this worker, ascending
      for (const Group& group : out_.groups)
        if (std::ranges::any_of(group.holders, [&](const Holder& h) { return h.worker == w; }))
          held.push_back(group.stage);
      if (!plan_.forward_only) {
        const auto tied = std::ranges::find(held, S_);
        for (auto it = tied; it != held.begin();) reduce(w, *--it, tick);
        if (tied != held.end()) reduce(w, S_, tick);
      }
      for (const int slot : pools_[at(w)].free)
        if (Resident* r = pools_[at(w)].previous[at(slot)]) free_slot(w, *r, tick);
      if (plan_.forward_only) continue;
      Instr verdict;
      verdict.tick = tick + 1;
      verdict.op = Op::Verdict;
      emit(w, std::move(verdict));
      for (const int stage : held) {
        Instr update;
        update.tick = tick + 2;
        update.op = Op::Update;
        update.stage = stage;
        emit(w, std::move(update));
      }
    }
  }

  void reduce(int worker, int stage, int tick) {
    if (out_.contributions(out_.groups[at(stage)]) < 2) return;
    for (const Op op : {Op::AllReduceStart, Op::AllReduceWait}) {
      Instr in;
      in.tick = tick;
      in.op = op;
      in.stage = in.group = stage;
      emit(worker, std::move(in));
    }
  }

  const ComputePlan& plan_;
  const int S_, span_;
  std::vector<Work> order_;
  Schedule out_;
  std::vector<Pool> pools_;
  std::vector<Resident> residents_;  // [stage][block]; a micro-batch runs on one pipe
  std::vector<Outgoing> outbox_;
};

}  // namespace

Schedule lower(const ComputePlan& plan, const LowerOptions& options) {
  return Lowering(plan, options).run();
}

std::vector<Group> make_groups(const std::vector<std::vector<int>>& placement, bool tied) {
  const int stages = static_cast<int>(placement.front().size());
  std::vector<Group> groups;
  for (int s = 0; s < stages; ++s) {
    Group& group = groups.emplace_back();
    group.stage = s;
    for (int p = 0; p < static_cast<int>(placement.size()); ++p)
      group.holders.push_back({placement[at(p)][at(s)], p, 0});
  }
  if (!tied) return groups;
  Group& group = groups.emplace_back();
  group.stage = stages;
  for (int p = 0; p < static_cast<int>(placement.size()); ++p)
    for (const int use : {0, 1})
      group.holders.push_back(
          {use == 0 ? placement[at(p)].front() : placement[at(p)].back(), p, use});
  return groups;
}

ComputePlan computations(const Schedule& schedule) {
  ComputePlan plan;
  plan.name = schedule.name;
  plan.depth = schedule.depth;
  plan.micro_batches = schedule.micro_batches;
  plan.pipeline_pairs = schedule.pipeline_pairs;
  plan.virtual_stages = schedule.virtual_stages;
  plan.forward_only = schedule.forward_only;
  plan.placement = schedule.placement;
  for (const Program& program : schedule.programs) {
    std::vector<Instr>& list = plan.workers.emplace_back();
    for (Instr in : program.body) {
      if (!is_compute(in.op)) continue;
      in.slot = in.input_slot = in.peer = in.group = -1;
      list.push_back(std::move(in));
    }
  }
  return plan;
}

}  // namespace chimera::schedule
