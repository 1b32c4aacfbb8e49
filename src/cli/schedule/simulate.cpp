// chimera schedule simulate, chimera schedule compare
#include <CLI/CLI.hpp>

#include "chimera/schedule/build.h"
#include "chimera/schedule/compare.h"
#include "chimera/schedule/render.h"
#include "schedule/options.h"

namespace chimera::cli {
namespace {

using namespace schedule;

constexpr const char* kSimulateFormats = "text, json, trace or svg";
constexpr const char* kCompareFormats = "text, json or svg";

void simulate_command(ScheduleOptions& o) {
  const Costs costs = costs_of(o);
  const std::string refused = refusal(o.request).text;
  if (!refused.empty()) FailUsage(refused);
  if (o.request.split_backward) o.request.times = times_for_search(costs, o.request);
  const Schedule s = build_schedule(o.request);
  const bool drawn = o.format == "trace" || o.format == "svg" || o.format == "json";
  if (!drawn && o.format != "text") refuse_format(o, kSimulateFormats);
  const Simulation simulation = simulate(s, costs, {.steps = o.steps, .timeline = drawn});
  if (o.format == "text")
    write_output(o, render_text(s, simulation));
  else if (o.format == "json")
    write_output(o, render_json(s, simulation));
  else if (o.format == "trace")
    write_output(o, render_trace(s, simulation));
  else
    write_output(o, render_svg(s, simulation));
}

void compare_command(const ScheduleOptions& o) {
  const std::vector<ComparedSchedule> rows = compare(o.request, costs_of(o));
  if (o.format == "text")
    write_output(o, render_text(rows));
  else if (o.format == "json")
    write_output(o, render_json(rows));
  else if (o.format == "svg")
    write_output(o, render_svg(rows));
  else
    refuse_format(o, kCompareFormats);
}

}  // namespace

void add_simulate_command(CLI::App& command, const SharedOptions& options) {
  CLI::App* sub = command.add_subcommand(
      "simulate",
      "Time the very programs that workers execute: makespan, bubbles by cause, memory");
  add_request_options(*sub, *options);
  add_cost_options(*sub, *options);
  sub->add_option("--steps", options->steps,
                  "consecutive steps (default: 1; overlapping steps: until they are steady)");
  add_output_options(*sub, *options, "text, json, trace (for Perfetto) or svg");
  sub->footer(
      schedules_help() +
      "Example:\n  chimera schedule simulate -D 32 -W 64 -N 32 --forward 0.05 --message-bytes "
      "3.2e6\n    --gradient-bytes 4.2e8 --latency 2e-6 --bandwidth 1e10 --sync eager");
  sub->callback([options, sub] {
    complete_request(*sub, *options);
    simulate_command(*options);
  });
}

void add_compare_command(CLI::App& command, const SharedOptions& options) {
  CLI::App* sub = command.add_subcommand(
      "compare", "All schedules side by side: time, bubble, activations, weights");
  add_request_options(*sub, *options);
  sub->get_option("--schedule")->group("");  // all of them
  add_cost_options(*sub, *options);
  add_output_options(*sub, *options, kCompareFormats);
  sub->footer(
      "Example:\n  chimera schedule compare -D 8 -N 16 --backward 2 --format svg -o bars.svg");
  sub->callback([options, sub] {
    complete_request(*sub, *options);
    compare_command(*options);
  });
}

}  // namespace chimera::cli
