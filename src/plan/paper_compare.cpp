// Figures 1, 9 and 12 to 19: measured beside simulated.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "chimera/plan/equation.h"
#include "chimera/plan/footprint.h"
#include "chimera/plan/paper_page.h"
#include "chimera/plan/search.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/timing.h"

namespace chimera::plan {
namespace {

using schedule::Schedule;

std::string number(double value, const char* format = "%.1f") {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string error_text(double ours, double theirs) {
  return number(100 * (ours / theirs - 1), "%+.1f %%");
}
std::string of_row(const PaperRow& r) { return concat(r.nodes, " workers, batch ", r.batch); }

bool is_point(const PaperMachine& machine, const PaperRow& row) {
  return std::ranges::any_of(machine.points, [&](const PaperMachine::Point& p) {
    return p.figure == row.figure && p.name == row.name && p.nodes == row.nodes &&
           (p.batch == 0 || p.batch == row.batch);
  });
}

// All rows, simulated once.
struct Comparison {
  const PaperData& data;
  std::vector<double> simulated;
  explicit Comparison(const PaperData& d) : data(d) {
    for (const PaperRow& row : d.rows)
      simulated.push_back(PaperRun(row).throughput(d.model(row.model), d.machine(row.machine)));
  }
  double of(const std::string& figure, const std::string& name, Index nodes) const {
    for (std::size_t i = 0; i < data.rows.size(); ++i)
      if (data.rows[i].figure == figure && data.rows[i].name == name && data.rows[i].nodes == nodes)
        return simulated[i];
    Fail("the paper's data has no row ", name, " on ", nodes, " nodes in figure ", figure);
  }
};

PageTable throughput_table(const Comparison& c, const std::string& figure) {
  PageTable table;
  table.title = "Samples per second";
  table.header = {"scheme", "size", "layout", "paper", "simulated", "error"};
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < c.data.rows.size(); ++i) {
    const PaperRow& row = c.data.rows[i];
    if (row.figure != figure) continue;
    const bool point = is_point(c.data.machine(row.machine), row);
    table.rows.push_back({row.name, of_row(row), row.label(), number(row.measured),
                          number(c.simulated[i]),
                          point ? "(calibrated on)" : error_text(c.simulated[i], row.measured)});
    if (point) continue;
    sum += std::abs(c.simulated[i] / row.measured - 1);
    ++count;
  }
  table.note =
      concat("Mean error of ", count, " rows: ", number(100 * sum / std::max(1, count)), " %.");
  return table;
}

PageTable speed_up_table(const Comparison& c, const std::string& figure, Index nodes,
                         const std::vector<std::pair<const char*, double>>& text) {
  PageTable table;
  table.title = concat("Speed-up of Chimera on ", nodes, " nodes");
  table.header = {"over", "paper", "simulated", "error", "within 5 %"};
  for (const auto& [name, theirs] : text) {
    const double ours = c.of(figure, "Chimera", nodes) / c.of(figure, name, nodes);
    table.rows.push_back({name, number(theirs, "%.2f"), number(ours, "%.2f"),
                          error_text(ours, theirs),
                          std::abs(ours / theirs - 1) <= 0.05 ? "yes" : "no"});
  }
  return table;
}

model::ModelConfig shape_of(const PaperModel& m) {
  model::ModelConfig out;
  out.n_layer = m.layers;
  out.n_head = m.H;
  out.n_embd = m.C;
  out.vocab_size = m.V;
  out.n_positions = m.first_parameters / m.C - m.V;
  out.tied_embeddings = false;
  return out;
}

// What `chimera plan` takes, of this program's own layers, among the layouts of Fig. 13 for a
// model.
std::string planned(const PaperData& data, const std::string& model_name) {
  std::vector<const PaperRow*> rows;
  for (const PaperRow& row : data.rows)
    if (row.figure == "13" && row.model == model_name) rows.push_back(&row);
  const PaperModel& model = data.model(model_name);
  const PaperMachine& machine = data.machine(rows.front()->machine);
  SearchRequest request;
  request.model = shape_of(model);
  request.cluster.memory_bytes = 16e9;
  request.cluster.inter_node = {machine.latency, machine.bandwidth};
  request.cluster.intra_node = request.cluster.inter_node;
  request.cluster.reduction_inter_node = {machine.latency, machine.reduction_bandwidth > 0
                                                               ? machine.reduction_bandwidth
                                                               : machine.bandwidth};
  request.cluster.reduction_intra_node = request.cluster.reduction_inter_node;
  request.times = [&](Index B) { return paper_piece_times(model, machine, B); };
  request.workers = rows.front()->nodes;
  request.batch = rows.front()->batch;
  request.T = model.T;
  request.schedules = {"chimera"};
  request.recompute = {"none", "full"};
  request.zero_stages = {0};
  request.top = 1;
  request.refuse = [&](const Candidate& c) -> std::string {
    const bool listed = std::ranges::any_of(rows, [&](const PaperRow* row) {
      const schedule::Request &a = row->request, &b = c.request;
      return a.depth == b.depth && a.width == b.width && row->samples == c.samples &&
             a.recompute == b.recompute && b.pipeline_pairs == 1 && b.scaling == "direct" &&
             !b.split_backward;
    });
    return listed ? "" : "not in the figure";
  };
  const SearchResult found = search(request);
  return found.ranked.empty() ? "none" : describe(found.ranked.front().candidate);
}

// Fig. 13: three models, and what each of them chooses.
PageSection figure_13(const Comparison& c) {
  PageSection out{"Figure 13: the performance model",
                  "The paper's Eq. 1 as it prints it, Eq. 1 with C_f and C_b counted on our "
                  "schedule and our constants, "
                  "and the simulator.",
                  {throughput_table(c, "13")},
                  {}};
  PageTable& table = out.tables.front();
  table.header = {"layout",    "size",   "measured",  "paper's Eq. 1", "error",
                  "our Eq. 1", "error ", "simulated", "error  "};
  table.rows.clear();
  struct Best {
    std::string name;
    double value = 0;
  };
  std::map<std::string, std::array<Best, 4>> best;  // by model
  for (std::size_t i = 0; i < c.data.rows.size(); ++i) {
    const PaperRow& row = c.data.rows[i];
    if (row.figure != "13") continue;
    const double equation =
        paper_equation(c.data.model(row.model), c.data.machine(row.machine), row);
    const double values[] = {row.measured, row.paper_model, equation, c.simulated[i]};
    for (std::size_t k = 0; k < 4; ++k)
      if (values[k] > best[row.model][k].value) best[row.model][k] = {row.label(), values[k]};
    table.rows.push_back({row.name + ": " + row.label(), of_row(row), number(row.measured),
                          number(row.paper_model), error_text(row.paper_model, row.measured),
                          number(equation), error_text(equation, row.measured),
                          number(c.simulated[i]), error_text(c.simulated[i], row.measured)});
  }
  PageTable choice{"The best layout, says",
                   {"model", "the measurement", "the paper's Eq. 1", "our Eq. 1", "the simulator",
                    "chimera plan"},
                   {},
                   "chimera plan: the search over the same layouts with this program's layers, "
                   "balanced stages and memory; "
                   "the others keep equally many layers per stage."};
  for (const auto& [model, of] : best)
    choice.rows.push_back(
        {model, of[0].name, of[1].name, of[2].name, of[3].name, planned(c.data, model)});
  out.tables.push_back(std::move(choice));
  return out;
}

// Fig. 12: what eager-opt gains over eager.
PageSection figure_12(const Comparison& c) {
  PageSection out{"Figure 12: eager reductions for the middle stages, too, or not",
                  "The simulator's background reductions take nothing from computations, so "
                  "starting early cannot cost "
                  "anything there; the gain that the paper measured is exactly that cost.",
                  {},
                  {}};
  PageTable table{"Throughput of eager-opt over eager, Bert-48, D = 4, B = 8",
                  {"nodes", "paper", "simulated", "error", "eager over lazy, simulated"},
                  {},
                  ""};
  const std::pair<Index, double> measured[] = {{16, 1.01}, {32, 1.09}, {64, 1.11}};
  for (const auto& [nodes, theirs] : measured) {
    double speed[3] = {};
    const char* kinds[] = {"lazy", "eager", "eager-opt"};
    for (std::size_t k = 0; k < 3; ++k) {
      PaperRow row = c.data.row({"14", "Chimera", nodes});
      row.request.gradient_sync = kinds[k];
      speed[k] = PaperRun(row).throughput(c.data.model(row.model), c.data.machine(row.machine));
    }
    table.rows.push_back(
        {concat(nodes), number(theirs, "%.2f"), number(speed[2] / speed[1], "%.3f"),
         error_text(speed[2] / speed[1], theirs), number(speed[1] / speed[0], "%.3f")});
  }
  out.tables.push_back(std::move(table));
  return out;
}

struct Extent {
  double most = 0, least = 0;  // GiB
};

// Of this program's own model of the same shape: what a worker allocates.
Extent memory_of(const PaperModel& m, const PaperRow& row) {
  Shape shape;
  shape.model = shape_of(m);
  shape.layers.assign(static_cast<std::size_t>(row.request.depth), m.layers / row.request.depth);
  shape.samples = row.samples;
  shape.T = m.T;
  shape.recompute = row.request.recompute ? nn::Recompute::Full : nn::Recompute::None;
  const Schedule s = schedule::build_schedule(row.request);
  const std::vector<StageBytes> stages = all_stage_bytes(shape, s);
  Extent out;
  for (int w = 0; w < s.depth; ++w) {
    const double gib =
        static_cast<double>(worker_footprint(stages, s, nullptr, 0, w).bytes()) / (1 << 30);
    out.most = std::max(out.most, gib);
    out.least = w == 0 ? gib : std::min(out.least, gib);
  }
  return out;
}

PageSection memory_section(const PaperData& data, const std::string& figure) {
  constexpr double kDevice = 16;
  PageSection out{
      "Figure " + figure + ": memory",
      "Ours is what this program allocates for the same shape, to the byte (weights, gradients, "
      "Adam's two "
      "moments, activations, workspace, the scratch of reductions); the paper's is PyTorch's. They "
      "differ by "
      "what a layer keeps: ours stores no attention matrices and few temporaries, so its "
      "activations are a "
      "fraction of PyTorch's, while its reductions need room for every contribution to a chunk.",
      {},
      {}};
  PageTable table{"Fullest and emptiest worker, GiB",
                  {"layout", "scheme", "paper", "ours", "error of the fullest"},
                  {},
                  ""};
  for (const PaperMemory& m : data.memory) {
    if (m.figure != figure) continue;
    const Extent ours = memory_of(data.model(m.row.model), m.row);
    const bool out_of_memory = m.most == 0;
    table.rows.push_back({concat(m.row.model, " ", m.row.label()), m.row.name,
                          out_of_memory  ? "out of memory"
                          : m.least == 0 ? number(m.most)
                                         : number(m.most) + " / " + number(m.least),
                          number(ours.most) + " / " + number(ours.least),
                          !out_of_memory        ? error_text(ours.most, m.most)
                          : ours.most > kDevice ? "out of memory, too"
                                                : "fits in 16 GB"});
  }
  out.tables.push_back(std::move(table));
  return out;
}

PageSection figure_1(const Comparison& c) {
  PageSection out = memory_section(c.data, "1");
  out.title = "Figure 1: GPT-2 on 2,048 nodes";
  PageTable table{
      "Bubbles, counted in equal slots", {"scheme", "layout", "paper", "counted", "error"}, {}, ""};
  const std::pair<const char*, double> bars[] = {
      {"GPipe", 0.447}, {"GEMS", 0.83}, {"DAPPLE", 0.484}, {"Chimera", 0.319}};
  for (const auto& [name, theirs] : bars) {
    const PaperRow& row = c.data.row({"15", name, 2048});
    schedule::Request plain = row.request;
    plain.recompute = false;  // a recomputation is no bubble, and no use either: not counted
    const double ours = schedule::at_ticks(schedule::generate(plain)).bubble_ratio();
    table.rows.push_back({name, row.label(), number(100 * theirs) + " %", number(100 * ours) + " %",
                          error_text(ours, theirs)});
  }
  out.tables.insert(out.tables.begin(), std::move(table));
  return out;
}

PageSection constants_section(const PaperData& data) {
  PageSection out{"Constants", "", {}, {}};
  PageTable table{"Derived from the named points alone",
                  {"machine", "share of peak", "latency", "bandwidth", "of reductions", "points"},
                  {},
                  ""};
  for (const PaperMachine& m : data.machines) {
    std::string points;
    for (const PaperMachine::Point& p : m.points)
      points += concat(points.empty() ? "" : "; ", "Fig. ", p.figure, " ", p.name, ", ", p.nodes,
                       " workers", p.batch > 0 ? concat(", batch ", p.batch) : "");
    const double reductions = m.reduction_bandwidth > 0 ? m.reduction_bandwidth : m.bandwidth;
    table.rows.push_back(
        {m.name, number(m.achieved_fraction, "%.3f"), number(1e3 * m.latency, "%.2f ms"),
         number(m.bandwidth / 1e9, "%.2f GB/s"), number(reductions / 1e9, "%.2f GB/s"), points});
  }
  out.tables.push_back(std::move(table));
  return out;
}

}  // namespace

double paper_equation(const PaperModel& model, const PaperMachine& machine, const PaperRow& row) {
  const schedule::ComputePlan plan = schedule::generate(row.request);
  const schedule::Costs costs = paper_costs(model, machine, row);
  std::vector<double> reductions;
  for (const schedule::Group& g : schedule::make_groups(plan.placement, false))
    reductions.push_back(schedule::all_reduce_seconds(
        costs.reduction_inter_node, costs.gradient_bytes[static_cast<std::size_t>(g.stage)],
        row.request.width * narrow<int>(std::ssize(g.holders))));
  const double message =
      costs.inter_node.latency + costs.inter_node.seconds_per_byte * costs.message_bytes;
  const Equation1 e = equation1(
      plan, paper_stage_seconds(model, machine, row.samples, plan.stages(), row.request.recompute),
      message, reductions, row.request.gradient_sync != "lazy");
  return static_cast<double>(row.batch) / e.seconds();
}

std::vector<PageSection> paper_comparison(const PaperData& data) {
  const Comparison c(data);
  std::vector<PageSection> out{constants_section(data), figure_1(c), memory_section(data, "9"),
                               figure_12(c), figure_13(c)};
  const auto figure = [&](const char* id, const char* title) -> PageSection& {
    return out.emplace_back(PageSection{title, "", {throughput_table(c, id)}, {}});
  };
  figure("14", "Figure 14: Bert-48, weak scaling")
      .tables.push_back(speed_up_table(c, "14", 64,
                                       {{"PipeDream-2BW", 1.17},
                                        {"DAPPLE", 1.19},
                                        {"GPipe", 1.32},
                                        {"PipeDream", 1.94},
                                        {"GEMS", 2.41}}));
  figure("15", "Figure 15: GPT-2, weak scaling")
      .tables.push_back(speed_up_table(c, "15", 2048,
                                       {{"PipeDream-2BW", 1.16},
                                        {"DAPPLE", 1.38},
                                        {"GPipe", 1.42},
                                        {"PipeDream", 2.01},
                                        {"GEMS", 2.34}}));
  figure("16", "Figure 16: Bert-48 with sequence 512 on V100");
  figure("17", "Figure 17: Bert-48, large mini-batches");
  figure("18", "Figure 18: GPT-2, large mini-batches");
  figure("19", "Figure 19: more than two pipelines");
  return out;
}

}  // namespace chimera::plan
