#include "chimera/bench/schedules.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "chimera/bench/layout_steps.h"
#include "chimera/runtime/worker.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/compare.h"
#include "measured_costs.h"

namespace chimera::bench {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::Costs;
using schedule::Instr;
using schedule::Op;
using schedule::Schedule;

double entry(const std::vector<double>& list, int stage) {
  if (list.size() == 1) return list.front();
  const auto place = static_cast<std::size_t>(stage);
  return place < list.size() ? list[place] : 0;
}

double seconds_of(const Costs& costs, const Schedule& plan, const Instr& in) {
  const double input = entry(costs.backward_input, in.stage),
               weight = entry(costs.backward_weight, in.stage);
  switch (in.op) {
    case Op::Forward: return in.count * entry(costs.forward, in.stage);
    case Op::Recompute:
      return in.count * entry(costs.recompute.empty() ? costs.forward : costs.recompute, in.stage);
    case Op::Backward: return in.count * (input + weight);
    case Op::BackwardInput: return in.count * input;
    case Op::BackwardWeight: return in.count * weight;
    case Op::Update: {
      const bool tied = in.stage == plan.stages();  // one number for all counts it with its stage
      const double whole = tied && costs.update.size() == 1 ? 0 : entry(costs.update, in.stage);
      return plan.has(Op::ReduceScatterStart) ? whole / members_of(plan, in.stage) : whole;
    }
    default: return 0;
  }
}

// A stage that does nothing for as long as its work would take.
class Sleeper {
 public:
  Sleeper(const Costs& costs, const Schedule& plan, std::vector<Instr>& executed)
      : costs_(costs), plan_(plan), executed_(executed) {}

  void operator()(const Instr& in) {
    executed_.push_back(in);
    const std::chrono::duration<double> wanted(seconds_of(costs_, plan_, in));
    const auto length = std::chrono::duration_cast<Clock::duration>(wanted);
    Clock::time_point until = Clock::now() + length;
    // Who has waited for a message got it late, too: nothing to make up for.
    const bool at_once = until - length - woken_ < length / 20;
    if (at_once) until -= late_;
    if (length > Clock::duration::zero()) std::this_thread::sleep_until(until);
    woken_ = Clock::now();
    late_ = woken_ - until;
  }

 private:
  const Costs& costs_;
  const Schedule& plan_;
  std::vector<Instr>& executed_;
  Clock::time_point woken_{};
  Clock::duration late_{};
};

// Which steps count: times are compared from step to step + window.
struct Counting {
  Index first, window, differences, steps;
};

Counting counting_of(const Schedule& plan, Index steps) {
  const Index lag = plan.lag();
  if (lag == 0 && plan.period == 0) return {0, 1, steps, steps + 1};
  const Index window = std::max(steps, lag);
  return {lag + 1, window, window, lag + 1 + 2 * window + lag + 1};
}

Counting in_one_window(Counting c) {
  c.window += c.differences - 1;
  c.differences = 1;
  return c;
}

double median_step(const std::vector<double>& ends, const Counting& c) {
  std::vector<double> seconds;
  for (Index i = c.first; i < c.first + c.differences; ++i)
    seconds.push_back(
        (ends[static_cast<std::size_t>(i + c.window)] - ends[static_cast<std::size_t>(i)]) /
        static_cast<double>(c.window));
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

void run_steps(Worker& worker, const Config& config, const Counting& c, MeasuredSteps& out) {
  SyntheticSamples samples(config.sequence_length(), config.model.vocab_size);
  std::vector<double> ends;
  worker.train_steps(samples, 0, c.steps, [&](Index, const StepResult&) {
    ends.push_back(std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    return false;
  });
  out.steps = c.steps;
  out.step_seconds = median_step(ends, c);
}

Programs programs_of(const schedule::Request& request) {
  Programs programs;
  programs.train = schedule::build_schedule(request);
  programs.evaluation = schedule::build_evaluation(programs.train, request.micro_batches);
  return programs;
}

bool counts(const TraceEvent& event) {
  return schedule::is_compute(event.instr.op) || event.instr.op == Op::Update;
}

}  // namespace

Config sleeping_config(const schedule::Request& r) {
  Config config;
  model::ModelConfig& m = config.model;
  m.n_layer = Index{r.depth} * r.virtual_stages;
  m.n_head = 1, m.n_embd = 8, m.n_positions = 4, m.vocab_size = 16;
  m.embd_pdrop = m.attn_pdrop = m.resid_pdrop = 0;
  m.tied_embeddings = r.tied;
  config.parallel.request = r;
  config.parallel.recompute = r.recompute ? "full" : "none";
  config.optimizer.grad_clip = 0;  // overlapping steps cannot
  config.train.steps = Index{1} << 30;
  return config;
}

BenchCase sleeping_case(std::string name, schedule::Request request, const Costs& costs) {
  request.times = schedule::times_for_search(costs, request);
  BenchCase out{
      .name = std::move(name),
      .config = sleeping_config(request),
      .programs = programs_of(request),
      .costs = schedule::costs_per_virtual_stage(costs, request.depth, request.virtual_stages)};
  schedule::check_costs(out.costs, out.programs.train);
  return out;
}

BenchCase computing_case(std::string name, const Config& config) {
  return {std::move(name), config, build_programs(config), {}};
}

MeasuredSteps run_sleeping(const BenchCase& bench, Communicator& comm, Index steps) {
  const Schedule& plan = bench.programs.train;
  MeasuredSteps out{.costs = bench.costs};
  Worker worker(bench.config, bench.programs, comm, [] { return false; });
  worker.initialize_weights();
  worker.set_compute_override(Sleeper(bench.costs, plan, out.executed));
  run_steps(worker, bench.config, counting_of(plan, steps), out);
  return out;
}

MeasuredSteps run_computing(const BenchCase& bench, Communicator& comm, Index steps) {
  const Schedule& plan = bench.programs.train;
  const Counting counting = in_one_window(counting_of(plan, steps));
  std::vector<Index> traced(static_cast<std::size_t>(counting.steps));
  std::iota(traced.begin(), traced.end(), 0);
  std::vector<TraceEvent> events;
  MeasuredSteps out;
  Worker worker(bench.config, bench.programs, comm, [] { return false; });
  worker.initialize_weights();
  worker.trace(&traced, &events);
  run_steps(worker, bench.config, counting, out);
  for (const TraceEvent& event : events)
    if (counts(event)) out.executed.push_back(event.instr);
  std::erase_if(events, [&](const TraceEvent& e) { return e.step <= counting.first; });
  out.costs = measured_costs(events, plan, comm);
  return out;
}

double bubble_ratio(const schedule::Simulation& simulation, double step_seconds) {
  double busy = 0;
  for (const schedule::WorkerTimes& worker : simulation.workers) busy += worker.busy;
  return 1 - busy / (static_cast<double>(simulation.workers.size()) * step_seconds);
}

}  // namespace chimera::bench
