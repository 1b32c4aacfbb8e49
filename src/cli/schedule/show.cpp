// chimera schedule show
#include <CLI/CLI.hpp>

#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "schedule/options.h"

namespace chimera::cli {
namespace {

using namespace schedule;

constexpr const char* kFormats = "text, svg, trace, instructions or json";

// Equal slots for a backward as long as a forward, as the paper draws them; otherwise each
// computation as soon as its inputs are there.
std::vector<TitledTimetable> timetables(const Schedule& s, const std::vector<int>& backward) {
  std::vector<TitledTimetable> out;
  for (const int b : backward) {
    if (b < 1 || b > 100) FailUsage("--backward is ", b, "; it must be 1 to 100 times a forward");
    if (b == 1)
      out.push_back({"equal slots (one per computation)", at_ticks(computations(s))});
    else
      out.push_back({concat("backward ", b, " times forward, each as soon as possible"),
                     as_soon_as_possible(s, {.forward = 1, .backward = b})});
  }
  return out;
}

// A forward takes a millisecond, so that a viewer's clock counts forwards.
std::string trace_of(const Schedule& s, const std::vector<int>& backward) {
  constexpr double kForward = 1e-3;
  const int b = backward.back();
  if (b < 1 || b > 100) FailUsage("--backward is ", b, "; it must be 1 to 100 times a forward");
  Costs costs;
  costs.rendezvous = false;
  costs.forward = {kForward};
  costs.backward_input = costs.backward_weight = {b * kForward / 2};
  const int steps = s.period > 0 ? s.lag() + 3 : 1;
  return render_trace(s, simulate(s, costs, {.steps = steps, .causes = false}));
}

void show(const ScheduleOptions& o) {
  const Schedule s = build_schedule(o.request);
  if (o.format == "text")
    write_output(o, render_text(s, timetables(s, o.backward)) + render_peaks(verify(s)));
  else if (o.format == "svg")
    write_output(o, render_svg(s, timetables(s, o.backward)));
  else if (o.format == "trace")
    write_output(o, trace_of(s, o.backward));
  else if (o.format == "instructions")
    write_output(o, render_instructions(s));
  else if (o.format == "json")
    write_output(o, to_json(s));
  else
    refuse_format(o, kFormats);
}

}  // namespace

void add_show_command(CLI::App& command, const SharedOptions& options) {
  CLI::App* sub =
      command.add_subcommand("show", "Who computes what and when, with the bubbles counted");
  add_request_options(*sub, *options);
  sub->add_option("--backward", options->backward,
                  "a backward's length in forwards: 1 draws equal slots (default: both 1 and 2)");
  add_output_options(*sub, *options,
                     "text, svg, trace (for Perfetto), instructions (what the workers execute) or "
                     "json");
  sub->footer(schedules_help() +
              "Example:\n  chimera schedule show -s chimera -D 4 -N 4 --format svg -o chimera.svg");
  sub->callback([options, sub] {
    complete_request(*sub, *options);
    show(*options);
  });
}

}  // namespace chimera::cli
