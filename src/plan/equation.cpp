#include "chimera/plan/equation.h"

#include <algorithm>
#include <set>

namespace chimera::plan {
namespace {

using schedule::ComputePlan;
using schedule::Instr;
using schedule::Op;

// The longest chain that ends here: its seconds and what lies on it.
struct Chain {
  double seconds = 0, forwards = 0, backwards = 0;
};

Chain longer(const Chain& a, const Chain& b) {
  const double same = 1e-9 * (a.seconds + b.seconds);
  if (a.seconds > b.seconds + same) return a;
  if (b.seconds > a.seconds + same) return b;
  return a.backwards >= b.backwards ? a : b;
}

double seconds_of(const Instr& in, const StageSeconds& stage) {
  switch (in.op) {
    case Op::Forward: return in.count * stage.forward;
    case Op::Backward: return in.count * stage.backward();
    case Op::BackwardInput: return in.count * stage.input;
    case Op::BackwardWeight: return in.count * stage.weight;
    default: Fail("a plan has the instruction ", to_string(in));
  }
}

// Runs again before the gradient is waited for.
double recompute_seconds(const Instr& in, const StageSeconds& stage) {
  return in.op == Op::Backward || in.op == Op::BackwardInput ? in.count * stage.recompute : 0;
}

double total_seconds(const Instr& in, const StageSeconds& stage) {
  return seconds_of(in, stage) + recompute_seconds(in, stage);
}

// All computations by tick; what one uses was made at a smaller tick.
std::vector<std::pair<int, const Instr*>> by_tick(const ComputePlan& plan) {
  std::vector<std::pair<int, const Instr*>> order;
  for (std::size_t w = 0; w < plan.workers.size(); ++w)
    for (const Instr& in : plan.workers[w]) order.emplace_back(static_cast<int>(w), &in);
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.second->tick; });
  return order;
}

// The longest chain up to each worker's last computation, and to each micro-batch's last forward
// and input gradient at each stage.
class Chains {
 public:
  Chains(const ComputePlan& plan, const std::function<double(int, int)>& message)
      : plan_(plan),
        message_(message),
        stages_(plan.stages()),
        micros_(plan.micro_batches),
        workers(plan.workers.size()),
        forward_(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(micros_)),
        backward_(forward_.size()) {}

  void run(int worker, const Instr& in, const StageSeconds& stage) {
    Chain& mine = workers[static_cast<std::size_t>(worker)];
    Chain chain = mine;
    chain.seconds += recompute_seconds(in, stage);
    for (int m = in.micro; m < in.micro + in.count; ++m) {
      if (in.op == Op::Forward && in.stage > 0)
        chain = longer(chain, arriving(forward_, worker, in, in.stage - 1, m));
      if (in.op != Op::Backward && in.op != Op::BackwardInput) continue;
      chain =
          longer(chain, in.stage + 1 < stages_ ? arriving(backward_, worker, in, in.stage + 1, m)
                                               : forward_[at(in.stage, m)]);
    }
    chain.seconds += seconds_of(in, stage);
    if (in.op == Op::Forward)
      chain.forwards += in.count;
    else  // a half counts half
      chain.backwards += in.count * (in.op == Op::Backward ? 1.0 : 0.5);
    mine = chain;
    if (in.op == Op::BackwardWeight) return;
    for (int m = in.micro; m < in.micro + in.count; ++m)
      (in.op == Op::Forward ? forward_ : backward_)[at(in.stage, m)] = chain;
  }

 private:
  Chain arriving(const std::vector<Chain>& made, int worker, const Instr& in, int stage,
                 int micro) const {
    Chain chain = made[at(stage, micro)];
    if (message_)
      chain.seconds += message_(
          plan_.placement[static_cast<std::size_t>(in.pipe)][static_cast<std::size_t>(stage)],
          worker);
    return chain;
  }
  std::size_t at(int stage, int micro) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micros_) +
           static_cast<std::size_t>(micro);
  }
  const ComputePlan& plan_;
  const std::function<double(int, int)>& message_;
  int stages_, micros_;

 public:
  std::vector<Chain> workers;

 private:
  std::vector<Chain> forward_, backward_;
};

}  // namespace

CriticalPath critical_path(const ComputePlan& plan, const std::vector<StageSeconds>& stages,
                           const std::function<double(int from, int to)>& message) {
  ENSURE(plan.period == 0, "a critical path of one step is asked for; the steps of ", plan.name,
         " overlap");
  CriticalPath path;
  path.stage_end.resize(stages.size());
  Chains chains(plan, message);
  for (const auto& [worker, in] : by_tick(plan)) {
    const auto s = static_cast<std::size_t>(in->stage);
    chains.run(worker, *in, stages.at(s));
    if (in->op == Op::Backward || in->op == Op::BackwardWeight)
      path.stage_end[s] =
          std::max(path.stage_end[s], chains.workers[static_cast<std::size_t>(worker)].seconds);
  }
  Chain longest;
  for (const Chain& chain : chains.workers) {
    longest = longer(longest, chain);
    path.end.push_back(chain.seconds);
  }
  path.seconds = longest.seconds;
  path.forwards = longest.forwards;
  path.backwards = longest.backwards;
  return path;
}

double busiest_worker(const ComputePlan& plan, const std::vector<StageSeconds>& stages) {
  double most = 0;
  for (const std::vector<Instr>& worker : plan.workers) {
    double sum = 0;
    for (const Instr& in : worker)
      sum += total_seconds(in, stages.at(static_cast<std::size_t>(in.stage)));
    most = std::max(most, sum);
  }
  return most;
}

double unoverlapped_reductions(const ComputePlan& plan, const CriticalPath& path,
                               const std::vector<double>& reduction_seconds, bool eager) {
  std::vector<std::set<int, std::greater<>>> held(plan.workers.size());
  for (const std::vector<int>& pipe : plan.placement)
    for (std::size_t s = 0; s < pipe.size(); ++s)
      held.at(static_cast<std::size_t>(pipe[s])).insert(static_cast<int>(s));
  double most = 0;
  for (std::size_t w = 0; w < held.size(); ++w) {
    double end = 0;
    for (const int stage : held[w]) {
      const auto s = static_cast<std::size_t>(stage);
      const double ready = eager ? path.stage_end[s] : std::max(path.end[w], path.stage_end[s]);
      if (reduction_seconds.at(s) > 0) end = std::max(end, ready) + reduction_seconds[s];
    }
    most = std::max(most, end - path.seconds);
  }
  return most;
}

Equation1 equation1(const ComputePlan& plan, const std::vector<StageSeconds>& stages,
                    double message_seconds, const std::vector<double>& reduction_seconds,
                    bool eager) {
  Equation1 out;
  double busiest = 0;
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    double forward = 0, backward = 0, forwards = 0, backwards = 0;
    for (const Instr& in : plan.workers[w]) {
      const double seconds = total_seconds(in, stages.at(static_cast<std::size_t>(in.stage)));
      (in.op == Op::Forward ? forward : backward) += seconds;
      if (in.op == Op::Forward) forwards += in.count;
      if (in.op == Op::Backward || in.op == Op::BackwardInput) backwards += in.count;
    }
    if (forward + backward <= busiest) continue;
    busiest = forward + backward;
    out.forward = forward / forwards;
    out.backward = backward / backwards;
  }
  const StageSeconds mean{out.forward, out.backward / 2, out.backward / 2, 0};
  const std::vector<StageSeconds> equal(stages.size(), mean);
  const CriticalPath path = critical_path(plan, equal);
  out.C_f = path.forwards;
  out.C_b = path.backwards;
  out.p2p = message_seconds;
  out.unoverlapped = unoverlapped_reductions(plan, path, reduction_seconds, eager);
  return out;
}

}  // namespace chimera::plan
