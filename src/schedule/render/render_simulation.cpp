// What a simulation found, as a table and for scripts.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "render_shared.h"

namespace chimera::schedule {
namespace {

std::string format_row(const std::string& name, const std::vector<std::string>& cells) {
  char text[32];
  std::snprintf(text, sizeof text, "%-7s", name.c_str());
  std::string out = text;
  for (const std::string& cell : cells) {
    std::snprintf(text, sizeof text, "%13s", cell.c_str());
    out += text;
  }
  return out + "\n";
}

Json json_of(const Occupied& o) {
  return {{"start", o.start}, {"end", o.end}, {"step", o.step}, {"instr", to_string(o.instr)}};
}

Json json_of(const WorkerTimes& w) {
  Json out = {{"busy", w.busy},
              {"startup", w.startup},
              {"middle", w.middle},
              {"tail", w.tail},
              {"message_wait", w.message_wait},
              {"reduction_wait", w.reduction_wait},
              {"step_sync_wait", w.step_sync_wait},
              {"activation_buffers", w.activation_buffers},
              {"boundary_buffers", w.boundary_buffers}};
  for (const auto& [key, list] :
       {std::pair("cells", &w.cells), std::pair("reductions", &w.reductions)}) {
    out[key] = Json::array();
    for (const Occupied& o : *list) out[key].push_back(json_of(o));
  }
  out["memory"] = Json::array();
  for (const BuffersInUse& use : w.memory)
    out["memory"].push_back(Json::array({use.time, use.activations, use.boundary}));
  return out;
}

}  // namespace

std::string render_text(const Schedule& schedule, const Simulation& s) {
  const bool overlaps = schedule.period > 0;
  std::string out =
      concat(heading(schedule), "\n", seconds_text(s.step_seconds), " per ",
             overlaps ? "steady step" : "step", ", bubble ratio ", percent(s.bubble_ratio()), "; ",
             s.steps, s.steps == 1 ? " step" : " steps", " in ", seconds_text(s.makespan), "\n");
  out += concat("of a step: messages ", seconds_text(s.messages),
                ", reductions and step synchronisation ", seconds_text(s.reductions), "\n\n");
  out += format_row("", {"busy", "start-up", "middle", "tail", "activations", "boundary"});
  for (std::size_t w = 0; w < s.workers.size(); ++w) {
    const WorkerTimes& t = s.workers[w];
    out += format_row("P" + std::to_string(w),
                      {seconds_text(t.busy), seconds_text(t.startup), seconds_text(t.middle),
                       seconds_text(t.tail), std::to_string(t.activation_buffers),
                       std::to_string(t.boundary_buffers)});
  }
  out += "\nstart-up, middle, tail: idle although messages and reductions cost nothing";
  if (overlaps) out += " (overlapping steps have no start-up and tail)";
  out +=
      "\nactivations, boundary: the most buffers in use, of what backward needs and of what "
      "travels";
  return out + "\n";
}

std::string render_json(const Schedule& schedule, const Simulation& s) {
  Json out = {{"schedule", schedule.name},
              {"depth", schedule.depth},
              {"micro_batches", schedule.micro_batches},
              {"width", schedule.width},
              {"steps", s.steps},
              {"makespan", s.makespan},
              {"step_seconds", s.step_seconds},
              {"bubble_ratio", s.bubble_ratio()},
              {"messages", s.messages},
              {"reductions", s.reductions},
              {"step_ends", s.step_ends},
              {"workers", Json::array()}};
  for (const WorkerTimes& w : s.workers) out["workers"].push_back(json_of(w));
  return out.dump() + "\n";
}

}  // namespace chimera::schedule
