// Seconds of the paper's models on its machines.
#include <algorithm>
#include <cmath>

#include "chimera/paper/paper.h"
#include "chimera/schedule/build.h"

namespace chimera::paper {

using namespace plan;
namespace {

// Seconds of the parts of a stage's forward for one micro-batch.
class Pieces {
 public:
  Pieces(const PaperModel& m, const PaperMachine& machine, Index B)
      : m_(m), machine_(machine), rows_(static_cast<double>(B * m.T)) {}

  // (rows, k) times (k, n): the machine's rate, reached by large results.
  double product(double n, double k) const {
    const double output = rows_ * n;
    return 2 * output * k / (machine_.peak_flops * machine_.achieved_fraction) *
           (1 + machine_.half_output / output);
  }
  double moved(double floats) const { return 4 * floats / machine_.memory_bandwidth; }

  double block() const {
    const double C = static_cast<double>(m_.C), T = static_cast<double>(m_.T),
                 H = static_cast<double>(m_.H);
    const double attention = product(C, T) * 2;  // scores and values, nothing left out
    return product(3 * C, C) + product(C, C) + product(4 * C, C) + product(C, 4 * C) + attention +
           moved(rows_ * (m_.pointwise * C + m_.pointwise_heads * H * T));
  }
  double embedding() const { return moved(rows_ * 10 * static_cast<double>(m_.C)); }
  double head() const {
    const double C = static_cast<double>(m_.C), V = static_cast<double>(m_.V);
    return product(V, C) + static_cast<double>(m_.head_square) * product(C, C) +
           moved(3 * rows_ * V);
  }

 private:
  const PaperModel& m_;
  const PaperMachine& machine_;
  double rows_;
};

}  // namespace

std::vector<double> paper_stage_parameters(const PaperModel& m, int stages) {
  ENSURE(stages >= 1 && m.layers % stages == 0, m.name, " has ", m.layers, " layers; ", stages,
         " stages do not share them equally");
  const double block = static_cast<double>(12 * m.C * m.C + 13 * m.C);
  std::vector<double> out(static_cast<std::size_t>(stages),
                          static_cast<double>(m.layers / stages) * block);
  out.front() += static_cast<double>(m.first_parameters);
  out.back() += static_cast<double>(m.last_parameters);
  return out;
}

std::vector<StageSeconds> paper_stage_seconds(const PaperModel& m, const PaperMachine& machine,
                                              Index B, int stages, bool recompute) {
  const Pieces pieces(m, machine, B);
  const std::vector<double> parameters = paper_stage_parameters(m, stages);
  const double blocks = static_cast<double>(m.layers / stages) * pieces.block();
  std::vector<StageSeconds> out;
  for (std::size_t s = 0; s < parameters.size(); ++s) {
    StageSeconds stage;
    stage.forward = blocks;
    if (s == 0) stage.forward += pieces.embedding();
    if (s + 1 == parameters.size()) stage.forward += pieces.head();
    // Twice the forward's products and passes, and the gradients are added to those before.
    stage.input = stage.forward;
    stage.weight = stage.forward + pieces.moved(3 * parameters[s]);
    stage.recompute = recompute ? blocks : 0;
    out.push_back(stage);
  }
  return out;
}

PieceTimes paper_piece_times(const PaperModel& m, const PaperMachine& machine, Index B) {
  const Pieces pieces(m, machine, B);
  PieceTimes times;
  times.block_forward = times.block_input = times.block_refill = pieces.block();
  times.block_weight =
      pieces.block() + pieces.moved(3 * static_cast<double>(12 * m.C * m.C + 13 * m.C));
  times.block_selective = pieces.block();
  times.embedding_forward = pieces.embedding();
  times.embedding_backward =
      2 * pieces.embedding() + pieces.moved(3 * static_cast<double>(m.first_parameters));
  times.head = 3 * pieces.head() + pieces.moved(3 * static_cast<double>(m.last_parameters));
  times.optimizer = pieces.moved(machine.optimizer_floats);
  return times;
}

schedule::Costs paper_costs(const PaperModel& m, const PaperMachine& machine, const PaperRow& row) {
  schedule::Costs costs;
  for (std::vector<double>* list : {&costs.forward, &costs.backward_input, &costs.backward_weight,
                                    &costs.update, &costs.gradient_bytes})
    list->clear();
  const int stages = row.request.depth * row.request.virtual_stages;
  for (const StageSeconds& s :
       paper_stage_seconds(m, machine, row.samples, stages, row.request.recompute)) {
    costs.forward.push_back(s.forward);
    costs.backward_input.push_back(s.input);
    costs.backward_weight.push_back(s.weight);
    costs.recompute.push_back(s.recompute);
  }
  for (const double parameters : paper_stage_parameters(m, stages)) {
    costs.update.push_back(4 * machine.optimizer_floats * parameters / machine.memory_bandwidth);
    costs.gradient_bytes.push_back(4 * parameters);
  }
  costs.message_bytes = 4 * static_cast<double>(row.samples * m.message_floats);
  costs.workers_per_node = narrow<int>(machine.devices_per_node);
  // Everything is staged through the host by one library: one alpha and one beta, as in Eq. 1.
  costs.inter_node = {machine.latency, 1 / machine.bandwidth};
  costs.intra_node = costs.inter_node;
  const double bandwidth =
      machine.reduction_bandwidth > 0 ? machine.reduction_bandwidth : machine.bandwidth;
  costs.reduction_inter_node = costs.reduction_intra_node = {machine.latency, 1 / bandwidth};
  return costs;
}

PaperRun::PaperRun(const PaperRow& row)
    : row_(row), schedule_(schedule::build_schedule(row.request)) {}

double PaperRun::throughput(const PaperModel& model, const PaperMachine& machine) const {
  const schedule::Simulation run = schedule::simulate(schedule_, paper_costs(model, machine, row_),
                                                      {.causes = false, .timeline = false});
  return static_cast<double>(row_.batch) / run.step_seconds;
}

namespace {

// The constant that a name in `derive` means, with its bounds.
struct Constant {
  double PaperMachine::*value;
  double least, most;
};
Constant constant_of(const std::string& name, const PaperMachine& m) {
  if (name == "achieved_fraction") return {&PaperMachine::achieved_fraction, 0.02, 1};
  if (name == "latency") return {&PaperMachine::latency, 1e-6, 1};
  if (name == "reduction_bandwidth")
    return {&PaperMachine::reduction_bandwidth, 1e7, m.most_bandwidth};
  if (name == "bandwidth") return {&PaperMachine::bandwidth, 1e7, m.most_bandwidth};
  Fail("'", name, "' is no derived constant; there are achieved_fraction, latency and bandwidth");
}

}  // namespace

// A pattern search in logarithms: few unknowns, a smooth function, bounds; no derivative is needed
// and it always ends.
Derived derive_constants(const PaperData& data, const PaperMachine& machine) {
  ENSURE(machine.derive.size() <= machine.points.size(), machine.name, " derives ",
         machine.derive.size(), " constants from ", machine.points.size(), " points");
  std::vector<PaperRun> runs;
  std::vector<const PaperRow*> rows;
  for (const PaperMachine::Point& p : machine.points) {
    rows.push_back(&data.row(p));
    runs.emplace_back(*rows.back());
  }
  Derived out{machine, std::vector<double>(runs.size())};
  const auto error_of = [&](const PaperMachine& m) {
    double sum = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double log =
          std::log(runs[i].throughput(data.model(rows[i]->model), m) / rows[i]->measured);
      sum += log * log;
    }
    return sum;
  };
  std::vector<Constant> constants;
  for (const std::string& name : machine.derive) constants.push_back(constant_of(name, machine));
  const auto moved = [&](const PaperMachine& from, std::size_t i, double factor) {
    PaperMachine m = from;
    m.*constants[i].value =
        std::clamp(from.*constants[i].value * factor, constants[i].least, constants[i].most);
    return m;
  };
  double best = error_of(out.machine);
  PaperMachine base = out.machine;
  for (double step = 1; step > 1e-5;) {
    PaperMachine probe = out.machine;
    double found = best;
    for (std::size_t i = 0; i < constants.size(); ++i)
      for (const double factor : {std::exp(step), std::exp(-step)}) {
        const PaperMachine m = moved(probe, i, factor);
        if (const double e = error_of(m); e < found) found = e, probe = m;
      }
    if (found >= best) {
      step /= 2;
      continue;
    }
    best = found;
    // On along the line that the last sweep found (Hooke and Jeeves, 1961).
    PaperMachine ahead = probe;
    for (const Constant& c : constants)
      ahead.*c.value =
          std::clamp(probe.*c.value * (probe.*c.value / base.*c.value), c.least, c.most);
    base = out.machine = probe;
    if (const double e = error_of(ahead); e < best) best = e, base = probe, out.machine = ahead;
  }
  for (std::size_t i = 0; i < runs.size(); ++i)
    out.simulated[i] = runs[i].throughput(data.model(rows[i]->model), out.machine);
  return out;
}

}  // namespace chimera::paper
