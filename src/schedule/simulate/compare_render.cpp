// The comparison as a table, for scripts, and as bars.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "chimera/schedule/compare.h"
#include "render/render_shared.h"

namespace chimera::schedule {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string range(double least, double most) {
  return least == most ? number(most) : number(least) + " to " + number(most);
}

struct Measure {
  const char* name;
  double ComparedSchedule::*value;
  std::string (*text)(double);
};
const Measure kMeasures[] = {
    {"time", &ComparedSchedule::seconds, seconds_text},
    {"bubble", &ComparedSchedule::bubble_ratio, [](double share) { return percent(share); }},
    {"activations", &ComparedSchedule::most_activations, number},
    {"weights", &ComparedSchedule::most_weights, number}};

constexpr double kName = 170, kBar = 170, kColumn = kBar + 80, kLine = 22, kTop = 64;

void draw_bar(Svg& svg, const ComparedSchedule& row, std::size_t column, double most, double y) {
  const Measure& measure = kMeasures[column];
  const double value = row.*measure.value;
  const double x = kName + kColumn * static_cast<double>(column);
  const double width = most > 0 ? kBar * value / most : 0;
  svg.box({.x = x,
           .y = y,
           .width = std::max(width, 1.0),
           .height = kLine - 6,
           .fill = rgb(212.0 - 55.0 * static_cast<double>(column), 0.5, 0.6),
           .hover = concat(row.name, ": ", measure.name, " ", measure.text(value))});
  svg.text(x + width + 5, y + 12, "n", measure.text(value));
}

}  // namespace

std::string render_text(const std::vector<ComparedSchedule>& rows) {
  char line[160];
  std::snprintf(line, sizeof line, "%-22s%13s%9s%13s%13s%14s%14s\n", "", "time", "bubble",
                "messages", "reductions", "activations", "weights");
  std::string out = line, refused;
  for (const ComparedSchedule& r : rows) {
    if (!r.refusal.empty()) {
      refused += concat(r.name, ": ", r.refusal, "\n");
      continue;
    }
    std::snprintf(line, sizeof line, "%-22s%13s%9s%13s%13s%14s%14s\n", r.name.c_str(),
                  seconds_text(r.seconds).c_str(), percent(r.bubble_ratio).c_str(),
                  seconds_text(r.messages).c_str(), seconds_text(r.reductions).c_str(),
                  range(r.least_activations, r.most_activations).c_str(),
                  range(r.least_weights, r.most_weights).c_str());
    out += line;
  }
  out +=
      "\nactivations: micro-batches in flight per worker; weights: copies of a worker's share of "
      "the model (least to most)\n";
  return refused.empty() ? out : out + "\nnot possible here:\n" + refused;
}

std::string render_json(const std::vector<ComparedSchedule>& rows) {
  Json out = Json::array();
  for (const ComparedSchedule& r : rows) {
    Json row = {{"name", r.name},
                {"schedule", r.request.schedule},
                {"depth", r.request.depth},
                {"micro_batches_per_step", r.request.micro_batches},
                {"pipeline_pairs", r.request.pipeline_pairs},
                {"virtual_stages", r.request.virtual_stages},
                {"scaling", r.request.scaling},
                {"split_backward", r.request.split_backward},
                {"overlap_steps", r.request.overlap_steps}};
    if (!r.refusal.empty()) {
      row["refused"] = r.refusal;
    } else {
      row["seconds"] = r.seconds;
      row["bubble_ratio"] = r.bubble_ratio;
      row["messages"] = r.messages;
      row["reductions"] = r.reductions;
      row["activations"] = {r.least_activations, r.most_activations};
      row["weights"] = {r.least_weights, r.most_weights};
    }
    out.push_back(std::move(row));
  }
  return out.dump(1) + "\n";
}

std::string render_svg(const std::vector<ComparedSchedule>& rows) {
  constexpr std::size_t columns = std::size(kMeasures);
  Svg svg(kName + kColumn * static_cast<double>(columns),
          kTop + kLine * static_cast<double>(rows.size()) + 10);
  if (!rows.empty())
    svg.text(4, 20, "h", concat("D = ", rows.front().request.depth, ", all schedules"));
  std::vector<double> most(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    for (const ComparedSchedule& row : rows) most[c] = std::max(most[c], row.*kMeasures[c].value);
    svg.text(kName + kColumn * static_cast<double>(c), kTop - 12, "n", kMeasures[c].name);
  }
  double y = kTop;
  for (const ComparedSchedule& row : rows) {
    svg.text(4, y + 12, "n", row.name);
    if (row.refusal.empty())
      for (std::size_t c = 0; c < columns; ++c) draw_bar(svg, row, c, most[c], y);
    else
      svg.text(kName, y + 12, "t", row.refusal);
    y += kLine;
  }
  return std::move(svg).finish();
}

}  // namespace chimera::schedule
