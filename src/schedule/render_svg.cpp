// The same grids as a picture that stays readable at D = 32.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "chimera/schedule/render.h"
#include "render_shared.h"

namespace chimera::schedule {
namespace {

constexpr int kCell = 22, kRow = 24, kLeft = 44, kRight = 56, kTitle = 40, kTop = 56, kLegend = 20;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// "#rrggbb" (SVG 1.1 has no hsl()): hue in degrees, saturation and lightness in [0, 1].
std::string rgb(double hue, double saturation, double lightness) {
  const double chroma = saturation * std::min(lightness, 1 - lightness);
  std::string out = "#";
  for (const int n : {0, 8, 4}) {
    const double k = std::fmod(n + hue / 30, 12);
    const double value = lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>(std::lround(255 * value)) & 255u);
    out += digits;
  }
  return out;
}

// Down pipes are blue to green, up pipes red to yellow; a forward is light, a backward dark.
std::string colour(int pipe, int pairs, bool forward) {
  const int f = std::max(pairs, 1);
  const bool down = pipe < f;
  const double within = static_cast<double>(pipe % f) / f;
  return rgb(down ? 212 - 70 * within : 12 + 40 * within, down ? 0.6 : 0.8, forward ? 0.8 : 0.42);
}

std::string text(int x, int y, const char* style, const std::string& content) {
  return concat("<text x=\"", x, "\" y=\"", y, "\" class=\"", style, "\">", escaped(content),
                "</text>\n");
}

std::string hover(const Schedule& schedule, const Timetable::Cell& cell, std::size_t worker) {
  const Instr& in = cell.instr;
  std::string micros = std::to_string(in.micro);
  if (in.count > 1) micros += " to " + std::to_string(in.micro + in.count - 1);
  return concat(to_string(in.op), " of micro-batch ", micros, ", stage ", in.stage, ", ",
                pipe_name(in.pipe, schedule.pipeline_pairs), ", worker ", worker, ", ", cell.start,
                " to ", cell.start + cell.length);
}

std::string draw_cell(const Schedule& schedule, const Timetable::Cell& cell, std::size_t worker,
                      int y) {
  const bool forward = cell.instr.op == Op::Forward;
  const int x = kLeft + cell.start * kCell, width = cell.length * kCell;
  std::string label = cell_label(cell.instr).substr(1);
  if (cell.instr.op == Op::BackwardInput || cell.instr.op == Op::BackwardWeight)
    label = cell_label(cell.instr);
  return concat("<g><title>", escaped(hover(schedule, cell, worker)), "</title><rect x=\"", x,
                "\" y=\"", y, "\" width=\"", width - 1, "\" height=\"", kRow - 2, "\" fill=\"",
                colour(cell.instr.pipe, schedule.pipeline_pairs, forward), "\"/><text x=\"",
                x + width / 2, "\" y=\"", y + 15, "\" class=\"", forward ? "f" : "b", "\">", label,
                "</text></g>\n");
}

std::string draw_legend(const Schedule& schedule, int y) {
  std::string out;
  int x = kLeft;
  const int shown = std::min(schedule.pipes(), 8);
  for (int i = 0; i < shown; ++i) {
    const int pipe = i * schedule.pipes() / shown;
    for (const bool forward : {true, false}) {
      out += concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"14\" height=\"14\" fill=\"",
                    colour(pipe, schedule.pipeline_pairs, forward), "\"/>\n");
      out += text(x + 18, y + 11, "n",
                  pipe_name(pipe, schedule.pipeline_pairs) + (forward ? " forward" : " backward"));
      x += 120;
    }
  }
  return out;
}

std::string draw_table(const Schedule& schedule, const TitledTimetable& titled, int y) {
  const Timetable& table = titled.table;
  std::string out = text(4, y + 14, "n", titled.title + ": " + bubble_text(table));
  y += kTitle;
  for (int t = 0; t<table.makespan; t += table.makespan> 60 ? 10 : 5)
    out += text(kLeft + t * kCell + 3, y - 6, "t", std::to_string(t));
  for (std::size_t w = 0; w < table.workers.size(); ++w, y += kRow) {
    out += text(4, y + 15, "n", "P" + std::to_string(w));
    out += concat("<rect x=\"", kLeft, "\" y=\"", y, "\" width=\"", table.makespan * kCell - 1,
                  "\" height=\"", kRow - 2, "\" fill=\"#eeeeee\"/>\n");
    for (const Timetable::Cell& cell : table.workers[w]) out += draw_cell(schedule, cell, w, y);
    out += text(kLeft + table.makespan * kCell + 8, y + 15, "n", concat("idle ", table.idle[w]));
  }
  return out;
}

}  // namespace

std::string render_svg(const Schedule& schedule, const std::vector<TitledTimetable>& tables) {
  const int legend = kLeft + 240 * std::min(schedule.pipes(), 8);
  int width = std::max(520, legend), height = kTop;
  for (const TitledTimetable& titled : tables) {
    width = std::max(width, kLeft + titled.table.makespan * kCell + kRight);
    height += kTitle + kRow * static_cast<int>(titled.table.workers.size()) + kLegend;
  }
  std::string out =
      concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
             "\" viewBox=\"0 0 ", width, " ", height, "\">\n");
  out +=
      "<style>text{font-family:sans-serif;font-size:11px}.f,.b{text-anchor:middle}.b{fill:#fff}"
      ".h{font-size:15px;font-weight:bold}.t{fill:#777;font-size:9px}</style>\n";
  out += concat("<rect width=\"", width, "\" height=\"", height, "\" fill=\"#ffffff\"/>\n");
  out += text(4, 18, "h", heading(schedule));
  out += draw_legend(schedule, 28);
  int y = kTop;
  for (const TitledTimetable& titled : tables) {
    out += draw_table(schedule, titled, y);
    y += kTitle + kRow * static_cast<int>(titled.table.workers.size()) + kLegend;
  }
  return out + "</svg>\n";
}

}  // namespace chimera::schedule
