// Lowering. One global order: per tick the computations, then the messages they make, gradients
// before activations, then by pipe and stage. Every worker posts its half of a message at the
// message's place in that order, so blocking rendezvous cannot deadlock. All is laid out on step
// 0's own clock first; where steps overlap, the clock is then folded by the period.
#include "chimera/schedule/lower.h"

#include <algorithm>
#include <tuple>

#include "lower_steps.h"

namespace chimera::schedule {
namespace {

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

// Micro-batches of one buffer: as many as the widest computation spans.
int block_span(const ComputePlan& plan) {
  int span = 1;
  for (const std::vector<Instr>& list : plan.workers)
    for (const Instr& in : list) span = std::max(span, in.count);
  return span;
}

// Places computations, loads and messages on step 0's clock.
class Lowering {
 public:
  Lowering(const ComputePlan& plan, const LowerOptions& options)
      : plan_(plan),
        recompute_(options.recompute && !plan.forward_only),
        S_(plan.stages()),
        span_(block_span(plan)),
        order_(in_global_order(plan)),
        timeline_(plan, options),
        blocks_(plan.placement.size() * at(S_ * blocks())) {
    for (const Work& work : order_)
      if (const Instr& in = *work.instr; in.op == Op::Forward && in.stage == 0) {
        BlockState& r = block_of(in);
        r.first = r.size == 0 ? in.micro : std::min(r.first, in.micro);
        r.size += in.count;
      }
  }

  Schedule run() {
    for (std::size_t i = 0; i < order_.size();) {
      const int tick = order_[i].instr->tick;
      for (; i < order_.size() && order_[i].instr->tick == tick; ++i) compute(order_[i]);
      exchange();
    }
    return timeline_.finish();
  }

 private:
  // One boundary buffer's worth of micro-batches at one stage.
  struct BlockState {
    int first = 0, size = 0;      // set at stage 0, for all stages of the pipe
    int finished = 0;             // micro-batches through their last computation
    std::vector<Instr> sends;     // activations on their way
    std::vector<Instr> arriving;  // receives started, not waited for
  };
  struct Outgoing {
    int worker;
    Instr send;
  };

  int blocks() const { return (plan_.micro_batches + span_ - 1) / span_; }
  BlockState& block_of(const Instr& in) {
    return blocks_[at((in.pipe * S_ + in.stage) * blocks() + in.micro / span_)];
  }
  bool makes_input_gradient(Op op) const { return op == Op::Backward || op == Op::BackwardInput; }

  static Instr derived(const Instr& from, Op op, int tick) {
    Instr in = from;
    in.op = op;
    in.tick = tick;
    in.version = 0;
    return in;
  }

  void receive(int worker, const Instr& in, Message message, BlockState& r) {
    const auto needed = [&](const Instr& recv) {
      return recv.message == message && recv.micro < in.micro + in.count &&
             in.micro < recv.micro + recv.count;
    };
    int arrived = 0;
    for (const Instr& recv : r.arriving)
      if (needed(recv)) timeline_.compute(worker, derived(recv, Op::RecvWait, in.tick)), ++arrived;
    std::erase_if(r.arriving, needed);
    ENSURE(arrived > 0 || in.count < span_, "schedule ", plan_.name, ": worker ", worker, " runs ",
           to_string(in), " before its ", to_string(message), " is made");
  }

  void compute(const Work& work) {
    const Instr& in = *work.instr;
    const bool first = in.stage == 0, last = in.stage == S_ - 1;
    ENSURE(in.micro >= 0 && in.count >= 1 && in.micro + in.count <= plan_.micro_batches &&
               in.micro / span_ == (in.micro + in.count - 1) / span_,
           "schedule ", plan_.name, ": ", to_string(in), " crosses buffers of ", span_,
           " micro-batches");
    BlockState& r = block_of(in);
    if (in.op == Op::Forward) {
      if (first || last) timeline_.compute(work.worker, derived(in, Op::LoadMicro, in.tick));
      if (!first) receive(work.worker, in, Message::Activation, r);
      if (!last) send(work, in.stage + 1, Message::Activation);
    } else if (makes_input_gradient(in.op)) {
      if (recompute_) {
        Instr again = in;
        again.op = Op::Recompute;
        timeline_.compute(work.worker, again);
      }
      if (!last) receive(work.worker, in, Message::Gradient, r);
      if (!first) send(work, in.stage - 1, Message::Gradient);
    }
    timeline_.compute(work.worker, in);
    if (!finishes(in.op, plan_.forward_only)) return;
    r.finished += in.count;
    const BlockState& block = blocks_[at(in.pipe * S_ * blocks() + in.micro / span_)];
    if (r.finished == block.size) timeline_.finished(work.worker, in, block.first, block.size);
  }

  void send(const Work& work, int to_stage, Message message) {
    Instr out = derived(*work.instr, Op::SendStart, work.instr->tick);
    out.message = message;
    out.peer = plan_.placement[at(out.pipe)][at(to_stage)];
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
    for (const Outgoing& o : outbox_) {
      const bool last_of_block = plan_.forward_only || o.send.message == Message::Gradient;
      if (last_of_block)
        timeline_.last_send(o.worker, o.send);
      else
        timeline_.message(o.worker, o.send);
      if (!last_of_block) block_of(o.send).sends.push_back(o.send);
      Instr recv = derived(o.send, Op::RecvStart, o.send.tick);
      recv.stage += o.send.message == Message::Activation ? 1 : -1;
      recv.peer = o.worker;
      BlockState& to = block_of(recv);
      if (recv.message == Message::Gradient) {
        const auto answered = [&](const Instr& send) {  // long received: what comes is made from it
          return send.micro < recv.micro + recv.count && recv.micro < send.micro + send.count;
        };
        for (const Instr& send : to.sends)
          if (answered(send))
            timeline_.message(o.send.peer, derived(send, Op::SendWait, recv.tick));
        std::erase_if(to.sends, answered);
      }
      to.arriving.push_back(recv);
      timeline_.message(o.send.peer, std::move(recv));
    }
    outbox_.clear();
  }

  const ComputePlan& plan_;
  const bool recompute_;
  const int S_, span_;
  std::vector<Work> order_;
  Timeline timeline_;
  std::vector<BlockState> blocks_;  // [pipe][stage][block]
  std::vector<Outgoing> outbox_;
};

}  // namespace

LowerOptions lowering_of(const Request& r) {
  return {.tied = r.tied,
          .width = r.width,
          .gradient_sync = r.gradient_sync,
          .zero_stage = r.zero_stage,
          .recompute = r.recompute};
}

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
  plan.period = schedule.period;
  plan.placement = schedule.placement;
  for (const Program& program : schedule.programs) {
    std::vector<Instr>& list = plan.workers.emplace_back();
    for (Instr in : program.body) {
      if (!is_compute(in.op) || in.op == Op::Recompute) continue;
      in.tick -= in.step * schedule.period;
      in.step = 0;
      list.push_back(std::move(in));
    }
    std::ranges::stable_sort(list, {}, &Instr::tick);
  }
  return plan;
}

}  // namespace chimera::schedule
