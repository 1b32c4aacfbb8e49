#pragma once
// The measurements of the Chimera paper (Li and Hoefler, SC'21) beside what the simulator says of
// the same layouts: models, machines and rows are data (scripts/paper), nothing in here is fitted
// to more than the points that the data names.
#include <optional>
#include <string>
#include <vector>

#include "chimera/plan/times.h"
#include "chimera/schedule/generate.h"
#include "chimera/schedule/simulate.h"

namespace chimera::paper {

using plan::PieceTimes;
using plan::StageSeconds;

// A model as the paper's PyTorch computes it: full attention, and a head with its own backward.
struct PaperModel {
  std::string name;
  Index layers = 0, C = 0, H = 0, T = 0, V = 0;
  Index first_parameters = 0, last_parameters = 0;  // of the first and last stage beside blocks
  Index head_square = 0;       // products (C, C) per token in the head, beside (C, V)
  Index message_floats = 0;    // of one sample between stages
  double pointwise = 0;        // floats moved per token and C by a block's forward beside products
  double pointwise_heads = 0;  // and per token, head and T
  Index parameters() const {
    return layers * (12 * C * C + 13 * C) + first_parameters + last_parameters;
  }
};

// A machine: published or estimated numbers, and those that are derived from its points.
struct PaperMachine {
  struct Point {
    std::string figure, name;
    Index nodes = 0, batch = 0;  // batch 0: the series' first on so many nodes
  };
  std::string name;
  double peak_flops = 0, memory_bandwidth = 0;
  Index devices_per_node = 1;
  double most_bandwidth = 0;  // of the network: no derived bandwidth is above it
  // Elements of its result at which a matrix product reaches half of the rate.
  double half_output = 0;
  double optimizer_floats = 0;      // moved per parameter and update
  std::vector<Point> points;        // at most three
  std::vector<std::string> derive;  // which of those below
  double achieved_fraction = 0;     // of the peak by a large matrix product
  double latency = 0;               // seconds of a message beside its bytes
  double bandwidth = 0;             // bytes per second of a message, as GLOO moves it
  double reduction_bandwidth = 0;   // of a reduction; 0: the messages'
};

// One bar of a figure: a layout and what was measured.
struct PaperRow {
  std::string figure, name, model, machine;
  schedule::Request request;
  Index samples = 1, batch = 0, nodes = 0;  // B, samples per step of all replicas, P
  double measured = 0;                      // samples per second
  double paper_model = 0;                   // what the paper's Eq. 1 says; 0: it does not
  std::string label() const;                // "W=8 D=4 B=8 N=8, R"
};

// Memory of the fullest and the emptiest worker in GB; 0: out of memory.
struct PaperMemory {
  std::string figure;
  PaperRow row;  // nothing is measured in it
  double most = 0, least = 0;
};

struct PaperData {
  std::vector<PaperModel> models;
  std::vector<PaperMachine> machines;
  std::vector<PaperRow> rows;
  std::vector<PaperMemory> memory;
  const PaperModel& model(const std::string& name) const;
  const PaperMachine& machine(const std::string& name) const;
  const PaperRow& row(const PaperMachine::Point& point) const;
};
// Reads DIR/numbers.json and DIR/constants.json; errors name file, key and value.
PaperData read_paper(const std::string& directory, const std::string& constants = "constants.json");

// Of one micro-batch of B samples per stage, equally many layers each; a recomputation is the
// blocks' forward.
std::vector<StageSeconds> paper_stage_seconds(const PaperModel& model, const PaperMachine& machine,
                                              Index B, int stages, bool recompute);
// The same for the planner, whose head does all of its work in the forward.
PieceTimes paper_piece_times(const PaperModel& model, const PaperMachine& machine, Index B);
// Parameters of each of `stages` stages.
std::vector<double> paper_stage_parameters(const PaperModel& model, int stages);
schedule::Costs paper_costs(const PaperModel& model, const PaperMachine& machine,
                            const PaperRow& row);

// Eq. 1 for a row, with C_f and C_b counted on its schedule: samples per second.
double paper_equation(const PaperModel& model, const PaperMachine& machine, const PaperRow& row);

// A row's schedule, built once, and the samples per second that the simulator gives it.
class PaperRun {
 public:
  explicit PaperRun(const PaperRow& row);
  double throughput(const PaperModel& model, const PaperMachine& machine) const;
  const schedule::Schedule& lowered() const { return schedule_; }

 private:
  PaperRow row_;
  schedule::Schedule schedule_;
};

// The constants named in `machine.derive` from its points: least squares of the logarithms of
// simulated over measured throughput (exact where the points allow it within bounds).
struct Derived {
  PaperMachine machine;
  std::vector<double> simulated;  // at the points
};
Derived derive_constants(const PaperData& data, const PaperMachine& machine);

}  // namespace chimera::paper
