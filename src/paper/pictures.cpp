// Figures 2 to 8 of the paper, drawn by the generators.
#include <set>

#include "chimera/paper/page.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "chimera/schedule/simulate.h"

namespace chimera::paper {

using namespace plan;
namespace {

using namespace schedule;

struct Drawn {
  const char* title;
  Request request;
  bool slots;  // equal slots, where the paper draws those
};

Request chimera(int D, int N, int f = 1, const char* scaling = "direct") {
  Request r;
  r.depth = D;
  r.micro_batches = N;
  r.pipeline_pairs = f;
  r.scaling = scaling;
  return r;
}

Request other(const char* name, int D, int N) {
  Request r = chimera(D, N);
  r.schedule = name;
  return r;
}

PagePicture drawn(const Drawn& d) {
  const Schedule s = build_schedule(d.request);
  std::vector<TitledTimetable> tables;
  if (d.slots)
    tables.push_back({"equal slots, B = F", at_ticks(computations(s))});
  else
    tables.push_back(
        {"B = 2F, each computation as soon as it can", as_soon_as_possible(s, {1, 2})});
  return {d.title, render_svg(s, tables)};
}

// Reductions beside computations: lines below the boxes. A reduction takes as long as `units`
// forwards.
PagePicture with_reductions(const std::string& title, Request r, const char* sync, double units) {
  r.gradient_sync = sync;
  r.width = 2;
  const Schedule s = build_schedule(r);
  Costs costs;
  costs.gradient_bytes = {1};
  // Rabenseifner over r = 4 workers: 2 (r - 1) / r of the bytes.
  costs.reduction_inter_node = costs.reduction_intra_node = {0, units / 1.5};
  return {title, render_svg(s, simulate(s, costs, {.causes = false}))};
}

PageTable groups(const Request& request) {
  Request r = request;
  r.width = 2;
  const Schedule s = build_schedule(r);
  PageTable table;
  table.title = concat("Members of each stage's reduction, D = ", r.depth, ", W = 2");
  table.header = {"stage", "workers"};
  for (const Group& group : s.groups) {
    std::set<int> workers;
    for (int replica = 0; replica < s.width; ++replica)
      for (const Holder& h : group.holders) workers.insert(replica * s.depth + h.worker);
    std::string list;
    for (const int w : workers) list += concat(list.empty() ? "P" : ", P", w);
    table.rows.push_back({concat(group.stage), list});
  }
  return table;
}

PageSection section(const char* title, const char* text, const std::vector<Drawn>& pictures) {
  PageSection out{title, text, {}, {}};
  for (const Drawn& d : pictures) out.pictures.push_back(drawn(d));
  return out;
}

}  // namespace

std::vector<PageSection> paper_pictures() {
  std::vector<PageSection> out;
  out.push_back(section("Figure 2: pipeline schemes",
                        "D = 4, N = 4. Columns are units of time, rows workers; numbers are "
                        "micro-batches. Where steps "
                        "overlap, several are drawn and one period of the steady state is marked.",
                        {{"PipeDream", other("pipedream", 4, 1), false},
                         {"PipeDream-2BW", other("pipedream-2bw", 4, 4), false},
                         {"GPipe", other("gpipe", 4, 4), false},
                         {"GEMS", other("gems", 4, 4), false},
                         {"DAPPLE", other("1f1b", 4, 4), false},
                         {"Chimera", chimera(4, 4), false}}));
  out.push_back(section(
      "Figure 3: bidirectional pipelines",
      "Two pipelines of two micro-batches each, merged: in equal slots, and with a backward of two "
      "forwards.",
      {{"Chimera, B = F", chimera(4, 4), true}, {"Chimera, B = 2F", chimera(4, 4), false}}));
  PageSection sync{
      "Figures 4 and 5: gradient synchronisation",
      "Reductions are the lines below the computations, each as long as two forwards: after all "
      "computations (lazy), as soon as a stage's gradients are complete (eager), and eager only "
      "where a "
      "bubble follows (eager-opt: the middle stages wait). These are simulations of the lowered "
      "programs.",
      {groups(chimera(4, 4))},
      {}};
  for (const char* how : {"lazy", "eager", "eager-opt"})
    sync.pictures.push_back(with_reductions(how, chimera(4, 4), how, 2));
  out.push_back(std::move(sync));
  out.push_back({"Figure 6: room for reductions",
                 "D = 6, N = 6, B = 2F, eager: the regions between a stage's last gradient and the "
                 "end of the step.",
                 {},
                 {with_reductions("Chimera, D = 6", chimera(6, 6), "eager", 3)}});
  out.push_back(section("Figure 7: more micro-batches than stages",
                        "D = 4, N = 8: two basic units one after the other; forwards in pairs "
                        "(with the start-up fix), "
                        "each backward alone; and the same timetable with halved backwards.",
                        {{"direct, B = F", chimera(4, 8), true},
                         {"direct, B = 2F", chimera(4, 8), false},
                         {"forward doubling", chimera(4, 8, 1, "doubling"), false},
                         {"backward halving", chimera(4, 8, 1, "halving"), false}}));
  out.push_back(section("Figure 8: four pipelines", "D = 8, N = 8, f = 2, equal slots.",
                        {{"two down, two up", chimera(8, 8, 2), true}}));
  return out;
}

}  // namespace chimera::paper
