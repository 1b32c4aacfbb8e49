// Tables 2 and 3 of the paper, counted.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <tuple>

#include "chimera/base/format.h"
#include "chimera/paper/page.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/timing.h"

namespace chimera::paper {

using namespace plan;
namespace {

using namespace schedule;

std::string range(int least, int most) {
  return least == most ? concat(most) : concat("[", least, ", ", most, "]");
}

// What a schedule costs, as the verifier and the timetable count it.
struct Counted {
  std::string bubble, bubble_2, weights, activations;
};

// idle / (workers * length), reduced where both are whole.
std::string share_of(const Timetable& table) {
  const double idle = std::accumulate(table.idle.begin(), table.idle.end(), 0.0);
  const double all = static_cast<double>(table.workers.size()) * table.step_length;
  const auto whole = [](double v) { return static_cast<Index>(v + 0.5); };
  const Index common = std::gcd(whole(idle), whole(all));
  return concat(whole(idle) / std::max<Index>(1, common), "/",
                whole(all) / std::max<Index>(1, common), " = ", percent(table.bubble_ratio(), 2));
}

Counted count(const Request& request) {
  const Schedule s = build_schedule(request);
  const VerifyReport report = verify(s);
  Counted out;
  const bool steady = s.lag() > 0 || s.period > 0;
  out.bubble = share_of(steady ? as_soon_as_possible(s, {1, 1}) : at_ticks(computations(s)));
  out.bubble_2 = share_of(as_soon_as_possible(s, {1, 2}));
  std::vector<int> weights(s.programs.size(), 0);
  for (const std::vector<int>& pipe : s.placement)
    for (std::size_t stage = 0; stage < pipe.size(); ++stage)
      weights[static_cast<std::size_t>(pipe[stage])] += s.versions[stage];
  const auto [light, heavy] = std::ranges::minmax(weights);
  out.weights = range(light, heavy);
  const auto [few, many] = std::ranges::minmax(report.workers, {}, &WorkerReport::in_flight);
  out.activations = range(few.in_flight, many.in_flight);
  return out;
}

Request request_of(const char* name, int D, int N, int f = 1) {
  Request r;
  r.schedule = name;
  r.depth = D;
  r.micro_batches = N;
  r.micro_batches = micro_batches_of_step(r);
  r.pipeline_pairs = f;
  return r;
}

std::string ratio(int above, double below, const std::string& text) {
  return concat(text, " = ", percent(above / below, 2));
}

}  // namespace

PageTable paper_table_2(int D, int N) {
  PageTable table;
  table.title = concat("Table 2, D = ", D, ", N = ", N);
  table.header = {"scheme",
                  "bubbles, B = F",
                  "bubbles, B = 2F",
                  "paper: bubbles",
                  "weights (M_theta)",
                  "paper: weights",
                  "activations (M_a)",
                  "paper: activations",
                  "synchronous"};
  const std::string one_to_D = concat("[1, D] = ", range(1, D));
  const std::string flush = ratio(D - 1, N + D - 1, "(D-1)/(N+D-1)");
  const std::tuple<const char*, const char*, std::string, std::string, std::string, const char*>
      rows[] = {{"PipeDream", "pipedream", "about 0", one_to_D, one_to_D, "no"},
                {"PipeDream-2BW", "pipedream-2bw", "about 0", "2", one_to_D, "no"},
                {"GPipe", "gpipe", flush, "1", concat("N = ", N), "yes"},
                {"GEMS", "gems", ratio(D - 1, D + 0.5, "about (D-1)/(D+1/2)"), "2", "1", "yes"},
                {"DAPPLE", "1f1b", flush, "1", one_to_D, "yes"},
                {"Chimera", "chimera",
                 concat(ratio(D - 2, 2 * N + D - 2, "(D-2)/(2N+D-2)"),
                        N == D ? ratio(D - 2, 1.5 * N + D - 2, "; B = 2F: (D-2)/(3N/2+D-2)") : ""),
                 "2", concat("[D/2+1, D] = ", range(D / 2 + 1, D)), "yes"}};
  for (const auto& [name, schedule, bubble, weights, activations, synchronous] : rows) {
    const Counted c = count(request_of(schedule, D, N));
    table.rows.push_back({name, c.bubble, c.bubble_2, bubble, c.weights, weights, c.activations,
                          activations, synchronous});
  }
  table.note =
      "Ratios are idle units over all units, counted in the timetable; B = F: one buffer per "
      "computation; stale schemes in "
      "steady state.";
  return table;
}

PageTable paper_table_3(int D, int N) {
  PageTable table;
  table.title = concat("Table 3, D = ", D, ", N = ", N);
  table.header = {"pipelines",         "replicas",          "idle slots",      "paper: slots",
                  "bubbles, B = F",    "paper: bubbles",    "bubbles, B = 2F", "weights (M_theta)",
                  "activations (M_a)", "paper: activations"};
  for (int f = 1; f <= D / 2; ++f) {
    if (D / 2 % f != 0) continue;
    const Request r = request_of("chimera", D, N, f);
    const Schedule s = build_schedule(r);
    const Timetable slots = at_ticks(computations(s));
    const auto [least, most] = std::ranges::minmax(slots.idle);
    const Counted c = count(r);
    table.rows.push_back(
        {concat(2 * f), concat(s.pipes()), range(static_cast<int>(least), static_cast<int>(most)),
         concat("D/f-2 = ", D / f - 2), c.bubble,
         ratio(D - 2 * f, 2 * f * N + D - 2 * f, "(D-2f)/(2fN+D-2f)"), c.bubble_2, c.weights,
         c.activations, concat("[D-D/(2f)+1, D] = ", range(D - D / (2 * f) + 1, D))});
  }
  return table;
}

}  // namespace chimera::paper
