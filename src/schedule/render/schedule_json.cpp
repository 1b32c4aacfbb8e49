// A schedule as a file: numbers by name, instructions as the text that logs show.
#include <nlohmann/json.hpp>

#include "chimera/base/json_reader.h"
#include "chimera/schedule/render.h"

namespace chimera::schedule {
namespace {

constexpr JsonFormat kFormat{"chimera-schedule", 3,
                             "`chimera schedule show --format json` writes one", "schedule"};

int integer(const JsonReader& r) {
  return static_cast<int>(
      r.count(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

template <class Read>
auto list(const JsonReader& r, const Read& read) {
  std::vector<decltype(read(r))> out;
  for (const JsonReader& entry : r.list()) out.push_back(read(entry));
  return out;
}

std::vector<int> integers(const JsonReader& r) { return list(r, integer); }

Json instructions(const std::vector<Instr>& list) {
  Json out = Json::array();
  for (const Instr& in : list) out.push_back(to_string(in));
  return out;
}

Instr read_instr(const JsonReader& r) {
  try {
    return parse_instr(r.text());
  } catch (const Error& error) {
    Fail(r.where(), ": ", error.what());
  }
}

Holder read_holder(const JsonReader& r) {
  r.only({"worker", "pipe", "use"});
  return {integer(r["worker"]), integer(r["pipe"]), integer(r["use"])};
}

Group read_group(const JsonReader& r) {
  r.only({"stage", "holders"});
  return {integer(r["stage"]), list(r["holders"], read_holder)};
}

Program read_program(const JsonReader& r) { return {list(r, read_instr)}; }

}  // namespace

std::string to_json(const Schedule& s) {
  Json out;
  out["format"] = kFormat.name;
  out["version"] = kFormat.version;
  out["name"] = s.name;
  out["depth"] = s.depth;
  out["micro_batches"] = s.micro_batches;
  out["pipeline_pairs"] = s.pipeline_pairs;
  out["virtual_stages"] = s.virtual_stages;
  out["width"] = s.width;
  out["tied"] = s.tied;
  out["forward_only"] = s.forward_only;
  out["period"] = s.period;
  out["activation_buffers"] = s.activation_buffers;
  out["boundary_buffers"] = s.boundary_buffers;
  out["versions"] = s.versions;
  out["accumulators"] = s.accumulators;
  out["placement"] = s.placement;
  out["groups"] = Json::array();
  for (const Group& group : s.groups) {
    Json holders = Json::array();
    for (const Holder& h : group.holders)
      holders.push_back({{"worker", h.worker}, {"pipe", h.pipe}, {"use", h.use}});
    out["groups"].push_back({{"stage", group.stage}, {"holders", holders}});
  }
  out["programs"] = Json::array();
  for (const Program& p : s.programs) out["programs"].push_back(instructions(p.body));
  return out.dump(1) + "\n";
}

Schedule from_json(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonReader r = open_format(json, name, kFormat);
  r.only({"format", "version", "name", "depth", "micro_batches", "pipeline_pairs", "virtual_stages",
          "width", "tied", "forward_only", "period", "activation_buffers", "boundary_buffers",
          "versions", "accumulators", "placement", "groups", "programs"});
  Schedule s;
  s.name = r["name"].text();
  s.depth = integer(r["depth"]);
  s.micro_batches = integer(r["micro_batches"]);
  s.pipeline_pairs = integer(r["pipeline_pairs"]);
  s.virtual_stages = integer(r["virtual_stages"]);
  s.width = integer(r["width"]);
  s.tied = r["tied"].flag();
  s.forward_only = r["forward_only"].flag();
  s.period = integer(r["period"]);
  s.activation_buffers = integers(r["activation_buffers"]);
  s.boundary_buffers = integers(r["boundary_buffers"]);
  s.versions = integers(r["versions"]);
  s.accumulators = integers(r["accumulators"]);
  s.placement = list(r["placement"], integers);
  s.groups = list(r["groups"], read_group);
  s.programs = list(r["programs"], read_program);
  return s;
}

}  // namespace chimera::schedule
