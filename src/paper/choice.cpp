// Figure 13: what the models say of one machine's layouts, and which each would choose.
#include <algorithm>
#include <array>
#include <map>

#include "chimera/plan/equation.h"
#include "chimera/plan/search.h"
#include "chimera/schedule/lower.h"
#include "shared.h"

namespace chimera::paper {

using namespace plan;
namespace {

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

// Fig. 13: three models, and what each of them chooses.
PageSection figure_13(const Comparison& c) {
  PageSection out{"Figure 13: the performance model",
                  "The paper's Eq. 1 as it prints it, Eq. 1 with C_f and C_b counted on our "
                  "schedule and our constants, "
                  "and the simulator.",
                  {{}},
                  {}};
  PageTable& table = out.tables.front();
  table.header = {"layout",    "size",      "measured",  "paper's Eq. 1", "its error",
                  "our Eq. 1", "its error", "simulated", "its error"};
  table.title = "Samples per second";
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
    table.rows.push_back({row.name + ": " + row.label(), size_text(row), number(row.measured),
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

}  // namespace chimera::paper
