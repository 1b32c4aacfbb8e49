// Schedules as pictures that stay readable at D = 32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "render_shared.h"

namespace chimera::schedule {
namespace {

constexpr double kCell = 22, kLeastCell = 9, kComfortable = 2600, kWidest = 30000;
constexpr double kRow = 24, kLeft = 44, kRight = 110, kTitle = 40, kTop = 72, kGap = 20;

// One occupied stretch of a row, in the units of its panel.
struct Bar {
  double start = 0, end = 0;
  Instr instr;  // micro counted on through the steps
  int step = 0;
};
struct Row {
  std::vector<Bar> bars, reductions;
  std::string note;
};
struct Panel {
  std::string title;
  std::vector<Row> rows;
  double length = 0, steady_start = 0, steady_end = 0;
  bool seconds = false;
};

// Down pipes are blue to green, up pipes red to yellow; a forward is light, a backward (its input
// half) dark, a weight gradient in between and greyer.
std::string colour(const Instr& in, int pairs) {
  if (in.op == Op::Update) return "#555555";
  const int f = std::max(pairs, 1);
  const bool down = in.pipe < f;
  const double within = static_cast<double>(std::max(in.pipe, 0) % f) / f;
  const double hue = down ? 212 - 70 * within : 12 + 40 * within;
  const double saturation = down ? 0.6 : 0.8;
  switch (in.op) {
    case Op::Forward:
    case Op::Recompute: return rgb(hue, saturation, 0.8);
    case Op::BackwardWeight: return rgb(hue, 0.45 * saturation, 0.62);
    default: return rgb(hue, saturation, 0.42);
  }
}

std::string time_text(const Panel& panel, double time) {
  return panel.seconds ? seconds_text(time) : concat(static_cast<Index>(std::llround(time)));
}

std::string hover(const Schedule& schedule, const Panel& panel, const Bar& bar, int worker) {
  const Instr& in = bar.instr;
  const int first = in.micro - bar.step * schedule.micro_batches;
  std::string out = to_string(in.op);
  if (in.micro >= 0) out += " of micro-batch " + std::to_string(first);
  if (in.count > 1) out += " to " + std::to_string(first + in.count - 1);
  out += ", stage " + std::to_string(in.stage);
  if (in.pipe >= 0) out += ", " + pipe_name(in.pipe, schedule.pipeline_pairs);
  if (schedule.period > 0) out += ", step " + std::to_string(bar.step);
  return concat(out, ", worker ", worker, ", ", time_text(panel, bar.start), " to ",
                time_text(panel, bar.end));
}

// Pixels per unit: the shortest computation is readable, and the picture as narrow as that allows.
struct Scale {
  double unit = kCell, label = 11;
};
Scale scale_of(const Panel& panel) {
  double shortest = std::numeric_limits<double>::max();
  for (const Row& row : panel.rows)
    for (const Bar& bar : row.bars)
      if (is_compute(bar.instr.op) && bar.end > bar.start)
        shortest = std::min(shortest, bar.end - bar.start);
  if (panel.length <= 0 || shortest > panel.length) return {};
  Scale scale;
  scale.unit = kCell / shortest;
  if (scale.unit * panel.length > kComfortable)
    scale.unit = std::max(kComfortable / panel.length, kLeastCell / shortest);
  scale.unit = std::min(scale.unit, kWidest / panel.length);
  scale.label = std::clamp(0.75 * scale.unit * shortest, 6.5, 11.0);
  return scale;
}

void draw_row(Svg& svg, const Schedule& schedule, const Panel& panel, int worker, double y,
              double unit) {
  const Row& row = panel.rows[static_cast<std::size_t>(worker)];
  const double gap = 0.6;
  svg.text(4, y + 15, "n", "P" + std::to_string(worker));
  svg.box(
      {.x = kLeft, .y = y, .width = panel.length * unit, .height = kRow - 2, .fill = "#eeeeee"});
  for (const Bar& bar : row.bars) {
    const Op op = bar.instr.op;
    const bool whole = op == Op::Forward || op == Op::Backward;
    svg.box({.x = kLeft + bar.start * unit,
             .y = y,
             .width = std::max((bar.end - bar.start) * unit - gap, 0.2),
             .height = kRow - 2,
             .fill = colour(bar.instr, schedule.pipeline_pairs),
             .label = op == Op::Update ? "U" : cell_label(bar.instr).substr(whole ? 1 : 0),
             .hover = hover(schedule, panel, bar, worker),
             .dark = op != Op::Forward && op != Op::Recompute,
             .hatched = op == Op::Recompute});
  }
  for (const Bar& bar : row.reductions)
    svg.box({.x = kLeft + bar.start * unit,
             .y = y + kRow - 6,
             .width = std::max((bar.end - bar.start) * unit, 0.2),
             .height = 5,
             .fill = "#8e24aa",
             .hover = hover(schedule, panel, bar, worker)});
  svg.text(kLeft + panel.length * unit + 8, y + 15, "n", row.note);
}

void draw_axis(Svg& svg, const Panel& panel, double y, double unit) {
  if (panel.length <= 0) return;
  const double wanted = 110 / unit;  // between two numbers
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double step = 10 * power;
  for (const double m : {5.0, 2.0, 1.0})
    if (m * power >= wanted * 0.5) step = m * power;
  if (!panel.seconds) step = std::max(1.0, std::round(step));
  for (double t = 0; t < panel.length; t += step)
    svg.text(kLeft + t * unit + 3, y, "t", time_text(panel, t));
}

void draw_panel(Svg& svg, const Schedule& schedule, const Panel& panel, double y) {
  const double unit = scale_of(panel).unit;
  svg.text(4, y + 14, "n", panel.title);
  draw_axis(svg, panel, y + kTitle - 6, unit);
  y += kTitle;
  const int rows = static_cast<int>(panel.rows.size());
  for (int w = 0; w < rows; ++w) draw_row(svg, schedule, panel, w, y + w * kRow, unit);
  if (panel.steady_end <= panel.steady_start) return;
  const double x = kLeft + panel.steady_start * unit;
  const double width = (panel.steady_end - panel.steady_start) * unit;
  svg.frame(x - 1, y - 2, width + 2, rows * kRow + 2);
  svg.text(x, y - 18, "t", "steady state");
}

struct Sample {
  Instr instr;
  std::string name;
  bool dark = false;
};

double draw_samples(Svg& svg, const Schedule& schedule, const std::vector<Sample>& samples,
                    double y) {
  double x = kLeft;
  for (const Sample& s : samples) {
    svg.box({.x = x,
             .y = y,
             .width = 14,
             .height = 14,
             .fill = colour(s.instr, schedule.pipeline_pairs),
             .hatched = s.instr.op == Op::Recompute});
    svg.text(x + 18, y + 11, "n", s.name);
    x += 34 + 6.2 * static_cast<double>(s.name.size());
  }
  return x;
}

// What can be seen in it: two lines of samples.
double draw_legend(Svg& svg, const Schedule& schedule, double y) {
  std::vector<Sample> pipes, kinds;
  const int shown = std::min(schedule.pipes(), 8);
  for (int i = 0; i < shown; ++i) {
    Instr in;
    in.pipe = i * schedule.pipes() / shown;
    pipes.push_back({in, pipe_name(in.pipe, schedule.pipeline_pairs)});
  }
  const std::pair<Op, const char*> names[] = {{Op::Forward, "forward"},
                                              {Op::Recompute, "recompute"},
                                              {Op::Backward, "backward"},
                                              {Op::BackwardInput, "I: input gradient"},
                                              {Op::BackwardWeight, "W: weight gradient"}};
  for (const auto& [op, name] : names) {
    if (!schedule.has(op)) continue;
    Instr in;
    in.op = op;
    in.pipe = 0;
    kinds.push_back({in, name});
  }
  return std::max(draw_samples(svg, schedule, pipes, y),
                  draw_samples(svg, schedule, kinds, y + 18));
}

std::string draw(const Schedule& schedule, const std::vector<Panel>& panels) {
  double width = 900, height = kTop, label = 11;
  for (const Panel& panel : panels) {
    const Scale scale = scale_of(panel);
    width = std::max(width, kLeft + panel.length * scale.unit + kRight);
    height += kTitle + kRow * static_cast<double>(panel.rows.size()) + kGap;
    label = std::min(label, scale.label);
  }
  Svg svg(width, height, label);
  svg.text(4, 18, "h", heading(schedule));
  draw_legend(svg, schedule, 28);
  double y = kTop;
  for (const Panel& panel : panels) {
    draw_panel(svg, schedule, panel, y);
    y += kTitle + kRow * static_cast<double>(panel.rows.size()) + kGap;
  }
  return std::move(svg).finish();
}

Panel panel_of(const TitledTimetable& titled) {
  const Timetable& table = titled.table;
  Panel panel{.title = titled.title + ": " + bubble_text(table),
              .rows = {},
              .length = static_cast<double>(table.makespan),
              .steady_start = static_cast<double>(table.steady_start),
              .steady_end = static_cast<double>(table.steady_end)};
  if (table.steady_end - table.steady_start >= table.makespan) panel.steady_end = 0;
  for (std::size_t w = 0; w < table.workers.size(); ++w) {
    Row& row = panel.rows.emplace_back();
    for (const Timetable::Cell& c : table.workers[w])
      row.bars.push_back(
          {static_cast<double>(c.start), static_cast<double>(c.start + c.length), c.instr, c.step});
    row.note = concat("idle ", table.idle[w]);
  }
  return panel;
}

std::vector<Bar> bars_of(const Schedule& schedule, const std::vector<Occupied>& list, int steps) {
  std::vector<Bar> bars;
  for (const Occupied& o : list) {
    if (o.step >= steps || o.end <= o.start) continue;
    bars.push_back({o.start, o.end, o.instr, o.step});
    if (o.instr.micro >= 0) bars.back().instr.micro += o.step * schedule.micro_batches;
  }
  return bars;
}

}  // namespace

std::string render_svg(const Schedule& schedule, const std::vector<TitledTimetable>& tables) {
  std::vector<Panel> panels;
  for (const TitledTimetable& titled : tables) panels.push_back(panel_of(titled));
  return draw(schedule, panels);
}

std::string render_svg(const Schedule& schedule, const Simulation& simulation) {
  // Many steps are simulated to find the steady state; fill, two steps and their likes are shown.
  const int steps = std::min(simulation.steps, schedule.lag() + 3);
  Panel panel{.title = concat(seconds_text(simulation.step_seconds), " per step, bubble ratio ",
                              percent(simulation.bubble_ratio())),
              .rows = {},
              .seconds = true};
  for (const WorkerTimes& w : simulation.workers) {
    Row& row = panel.rows.emplace_back();
    row.bars = bars_of(schedule, w.cells, steps);
    row.reductions = bars_of(schedule, w.reductions, steps);
    for (const Bar& bar : row.bars) panel.length = std::max(panel.length, bar.end);
    for (const Bar& bar : row.reductions) panel.length = std::max(panel.length, bar.end);
    row.note = "idle " + percent(1 - w.busy / std::max(simulation.step_seconds, 1e-300));
  }
  return draw(schedule, {panel});
}

}  // namespace chimera::schedule
