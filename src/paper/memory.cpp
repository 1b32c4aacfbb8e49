// Figures 1 and 9: memory, and bubbles beside it.
#include <algorithm>

#include "chimera/plan/footprint.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/timing.h"
#include "shared.h"

namespace chimera::paper {

using namespace plan;
namespace {

using schedule::Schedule;

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

}  // namespace

PageSection figure_9(const PaperData& data) { return memory_section(data, "9"); }

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
    table.rows.push_back(
        {name, row.label(), percent(theirs), percent(ours), error_text(ours, theirs)});
  }
  out.tables.insert(out.tables.begin(), std::move(table));
  return out;
}

}  // namespace chimera::paper
