#include "simulate_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "at.h"

namespace chimera::schedule {
namespace {

// One number for all stages, or one per stage; what has no entry costs nothing.
double entry(const std::vector<double>& list, int index, int stages) {
  if (list.size() == 1 && index < stages) return list.front();
  return at(index) < list.size() ? list[at(index)] : 0;
}

bool is_message(Op op) {
  return op == Op::SendStart || op == Op::SendWait || op == Op::RecvStart || op == Op::RecvWait;
}

// Sum, scattered sum, gathered weights, norm; -1: no reduction. The same at the start and the wait.
constexpr int kKinds = 4;
int kind_of(Op op) {
  switch (op) {
    case Op::AllReduceStart:
    case Op::AllReduceWait: return 0;
    case Op::ReduceScatterStart:
    case Op::ReduceScatterWait: return 1;
    case Op::AllGatherStart:
    case Op::AllGatherWait: return 2;
    case Op::GradNorm: return 3;
    default: return -1;
  }
}

class Preparation {
 public:
  Preparation(const Schedule& schedule, const Costs& costs)
      : s_(schedule), costs_(costs), span_(schedule.span()), kept_(schedule.keeps_activations()) {}

  SimulatedPrograms run() {
    out_.lag = s_.lag();
    prepare_reductions();
    for (int w = 0; w < s_.depth; ++w) {
      const std::vector<Instr>& body = s_.programs[at(w)].body;
      std::vector<TimedInstr>& timed_body = out_.workers.emplace_back();
      std::map<std::tuple<bool, Message, int, int>, int> keys;
      double busy = 0;
      for (const Instr& in : body) {
        TimedInstr& timed = timed_body.emplace_back();
        timed.instr = &in;
        timed.seconds = seconds(in);
        busy += timed.seconds;
        if (const int kind = kind_of(in.op); kind >= 0) timed.reduction = kKinds * in.group + kind;
        if (!is_message(in.op)) continue;
        const bool sends = in.op == Op::SendStart || in.op == Op::SendWait;
        const std::tuple key(sends, in.message, in.stage, in.micro);
        timed.transfer = keys.emplace(key, static_cast<int>(keys.size())).first->second;
        timed.channel = sends ? channel(w, in.peer, in.pipe) : channel(in.peer, w, in.pipe);
      }
      out_.transfers.push_back(static_cast<int>(keys.size()));
      out_.busy.push_back(busy);
      count_buffers(timed_body);
    }
    return std::move(out_);
  }

 private:
  int group_of(int stage) const {
    const auto it = std::ranges::find(s_.groups, stage, &Group::stage);
    return static_cast<int>(it - s_.groups.begin());
  }

  void prepare_reductions() {
    sharded_.assign(s_.groups.size(), false);
    for (const Program& program : s_.programs)
      for (const Instr& in : program.body)
        if (in.op == Op::ReduceScatterStart) sharded_[at(in.group)] = true;
    for (std::size_t g = 0; g < s_.groups.size(); ++g) {
      TimedReduction reduction;
      for (const Holder& h : s_.groups[g].holders) reduction.members.push_back(h.worker);
      std::ranges::sort(reduction.members);
      const auto repeated = std::ranges::unique(reduction.members);
      reduction.members.erase(repeated.begin(), repeated.end());
      members_.push_back(static_cast<int>(reduction.members.size()) * s_.width);
      const double bytes = entry(costs_.gradient_bytes, s_.groups[g].stage, s_.stages());
      const LinkCost link = reduction_link(reduction.members);
      const double whole = all_reduce_seconds(link, bytes, members_.back());
      const double norm = (members_.back() - 1) * link.latency;  // from holder to holder, in order
      for (const double seconds : {whole, whole / 2, whole / 2, norm}) {
        reduction.seconds = seconds;
        out_.reductions.push_back(reduction);
      }
    }
  }

  double seconds(const Instr& in) const {
    const auto of = [&](const std::vector<double>& list) {
      return in.count * entry(list, in.stage, s_.stages());
    };
    switch (in.op) {
      case Op::Forward: return of(costs_.forward);
      case Op::Recompute: return of(costs_.recompute.empty() ? costs_.forward : costs_.recompute);
      case Op::Backward: return of(costs_.backward_input) + of(costs_.backward_weight);
      case Op::BackwardInput: return of(costs_.backward_input);
      case Op::BackwardWeight: return of(costs_.backward_weight);
      case Op::Update: {
        const std::size_t g = at(group_of(in.stage));
        return entry(costs_.update, in.stage, s_.stages()) / (sharded_[g] ? members_[g] : 1);
      }
      default: return 0;
    }
  }

  Index node(Index replica, int worker) const {
    return (replica * s_.depth + worker) / costs_.workers_per_node;
  }
  bool crosses_nodes(int a, int b) const {
    if (costs_.workers_per_node == 0) return false;
    const int different = std::min(s_.width, costs_.workers_per_node);  // then it repeats
    for (Index r = 0; r < different; ++r)
      if (node(r, a) != node(r, b)) return true;
    return false;
  }
  // Its members are in all replicas, and ranks are contiguous on a node.
  LinkCost reduction_link(const std::vector<int>& members) const {
    const bool within = costs_.workers_per_node == 0 ||
                        node(0, members.front()) == node(s_.width - 1, members.back());
    return within ? costs_.reduction_intra_node : costs_.reduction_inter_node;
  }

  int channel(int source, int destination, int pipe) {
    const auto [it, added] = channels_.emplace(std::tuple(source, destination, pipe),
                                               static_cast<int>(out_.channels.size()));
    if (added) {
      const auto link = links_.emplace(std::pair(source, destination), out_.links).first;
      out_.links = static_cast<int>(links_.size());
      out_.channels.push_back(
          {source, destination, link->second,
           crosses_nodes(source, destination) ? costs_.inter_node : costs_.intra_node});
    }
    return it->second;
  }

  // A step meets its instructions by descending `step`, then in order of the body.
  void count_buffers(std::vector<TimedInstr>& body) const {
    std::map<std::pair<int, int>, std::vector<TimedInstr*>> leases;
    for (TimedInstr& timed : body)
      if (timed.instr->micro >= 0)
        leases[{timed.instr->stage, timed.instr->micro / span_}].push_back(&timed);
    for (auto& [lease, list] : leases) {
      std::ranges::stable_sort(list, std::greater(),
                               [](const TimedInstr* m) { return m->instr->step; });
      const auto first = std::ranges::find_if(
          list, [](const TimedInstr* m) { return acquires_boundary(m->instr->op); });
      if (first != list.end()) (*first)->boundary_begin = 1;
      if (releases_boundary(list.back()->instr->op)) list.back()->boundary_end = -1;
      count_activation_buffers(list);
    }
  }

  // An activation buffer is taken with its first micro-batch and returned with its last.
  void count_activation_buffers(const std::vector<TimedInstr*>& list) const {
    int micro_batches = 0;
    for (TimedInstr* timed : list) {
      const Op op = timed->instr->op;
      if (acquires_activations(op)) {
        if (micro_batches == 0) timed->activations_begin = 1;
        micro_batches += timed->instr->count;
      }
      if (releases_activations(op, kept_)) {
        micro_batches -= timed->instr->count;
        if (micro_batches == 0) timed->activations_end = -1;
      }
    }
  }

  const Schedule& s_;
  const Costs& costs_;
  const int span_;
  const bool kept_;  // what forwards store, until backward
  SimulatedPrograms out_;
  std::vector<bool> sharded_;  // per group
  std::vector<int> members_;   // per group, of all replicas
  std::map<std::tuple<int, int, int>, int> channels_;
  std::map<std::pair<int, int>, int> links_;
};

}  // namespace

double all_reduce_seconds(const LinkCost& link, double bytes, int members) {
  const double r = members;
  return 2 * std::log2(r) * link.latency + 2 * (r - 1) / r * link.seconds_per_byte * bytes;
}

SimulatedPrograms prepare(const Schedule& schedule, const Costs& costs) {
  return Preparation(schedule, costs).run();
}

}  // namespace chimera::schedule
