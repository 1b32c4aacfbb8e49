// What a split backward buys: idle time against buffers, with and without a barrier.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "chimera/schedule/split_search.h"
#include "schedule/options.h"

namespace chimera::cli {
namespace {

using schedule::TradePoint;

constexpr int kMostDepth = 32, kMostMicroBatches = 128;

std::string row(const char* barrier, const TradePoint& p, double work) {
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %g | %d | %.2f | %.1f %% |\n", barrier, p.update,
                p.buffers, p.idle, 100 * p.idle / (p.idle + work));
  return text;
}

// In units of a forward; the means of F, B and W as given.
void trade_off(ScheduleOptions& o, const std::vector<double>& updates) {
  schedule::Request& r = o.request;
  r.schedule = schedule::featured_schedule();
  r.split_backward = true;
  if (r.depth > kMostDepth || r.micro_batches > kMostMicroBatches)
    FailUsage("a trade-off at D = ", r.depth, ", N = ", r.micro_batches,
              "; it is searched to D = ", kMostDepth, ", N = ", kMostMicroBatches);
  const double F = o.forward.value_or(1), B = o.backward_seconds.value_or(F),
               W = o.weight.value_or(F), mean = (F + B + W) / 3;
  const auto stages = static_cast<std::size_t>(std::max(1, r.depth));
  r.times.forward.assign(stages, F);
  r.times.input.assign(stages, B);
  r.times.weight.assign(stages, W);
  std::string out = concat(
      "chimera with a split backward, D = ", r.depth, ", N = ", r.micro_batches,
      ", f = ", r.pipeline_pairs, r.tied ? ", tied" : "", "; F, B, W = ", F, ", ", B, ", ", W,
      "; R and idle in units of their mean. Idle: per step, busiest worker.\n\n"
      "| barrier | R | buffers | idle | bubble |\n|---|---:|---:|---:|---:|\n");
  const double work = 3.0 * r.micro_batches;
  for (const TradePoint& p : split_trade_off(r, false)) out += row("yes", p, work);
  for (const double update : updates) {
    r.times.update = update * mean;
    for (const TradePoint& p : split_trade_off(r, true)) out += row("no", p, work);
  }
  write_output(o, out);
}

}  // namespace

void add_tradeoff_command(CLI::App& schedule, const SharedOptions& options) {
  CLI::App* sub = schedule.add_subcommand(
      "tradeoff", "Idle time of the split Chimera against the buffers that it may use");
  auto updates = std::make_shared<std::vector<double>>(std::vector<double>{0, 1, 2});
  add_request_options(*sub, *options);
  sub->add_option("--forward", options->forward, "F (default 1)")->check(CLI::Range(0.01, 1e6));
  sub->add_option("--input", options->backward_seconds, "B: the input gradient (default F)")
      ->check(CLI::Range(0.01, 1e6));
  sub->add_option("--weight", options->weight, "W: the weight gradient (default F)")
      ->check(CLI::Range(0.01, 1e6));
  sub->add_option("--update-times", *updates,
                  "R: from a stage's last gradient to its updated weights, in means of F, B and W")
      ->check(CLI::Range(0.0, 1e3))
      ->capture_default_str();
  sub->add_option("-o,--output", options->output, "write to this file");
  sub->footer("Example:\n  chimera schedule tradeoff -D 8 -N 16 --update-times 0 1 2");
  sub->callback([options, updates, sub] {
    complete_request(*sub, *options);
    trade_off(*options, *updates);
  });
}

}  // namespace chimera::cli
