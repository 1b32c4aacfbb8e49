// A schedule as a file: numbers by name, instructions as the text that logs show.
#include "chimera/schedule/render.h"
#include "strict_reader.h"

namespace chimera::schedule {
namespace {

constexpr const char* kFormat = "chimera-schedule";
constexpr int kVersion = 3;

Json instructions(const std::vector<Instr>& list) {
  Json out = Json::array();
  for (const Instr& in : list) out.push_back(to_string(in));
  return out;
}

Instr read_instr(const StrictReader& r) {
  try {
    return parse_instr(r.text());
  } catch (const Error& error) {
    Fail(r.path(), ": ", error.what());
  }
}

Holder read_holder(const StrictReader& r) {
  r.only({"worker", "pipe", "use"}, "a holder");
  return {r["worker"].number(), r["pipe"].number(), r["use"].number()};
}

Group read_group(const StrictReader& r) {
  r.only({"stage", "holders"}, "a group");
  return {r["stage"].number(), r["holders"].list(read_holder)};
}

Program read_program(const StrictReader& r) { return {r.list(read_instr)}; }

}  // namespace

std::string to_json(const Schedule& s) {
  Json out;
  out["format"] = kFormat;
  out["version"] = kVersion;
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
  const StrictReader r = open_format(json, name, "schedule", kFormat, kVersion,
                                     "`chimera schedule show --format json` writes one");
  r.only({"format", "version", "name", "depth", "micro_batches", "pipeline_pairs", "virtual_stages",
          "width", "tied", "forward_only", "period", "activation_buffers", "boundary_buffers",
          "versions", "accumulators", "placement", "groups", "programs"},
         "a schedule");
  Schedule s;
  s.name = r["name"].text();
  s.depth = r["depth"].number();
  s.micro_batches = r["micro_batches"].number();
  s.pipeline_pairs = r["pipeline_pairs"].number();
  s.virtual_stages = r["virtual_stages"].number();
  s.width = r["width"].number();
  s.tied = r["tied"].flag();
  s.forward_only = r["forward_only"].flag();
  s.period = r["period"].number();
  s.activation_buffers = r["activation_buffers"].numbers();
  s.boundary_buffers = r["boundary_buffers"].numbers();
  s.versions = r["versions"].numbers();
  s.accumulators = r["accumulators"].numbers();
  s.placement = r["placement"].list([](const StrictReader& pipe) { return pipe.numbers(); });
  s.groups = r["groups"].list(read_group);
  s.programs = r["programs"].list(read_program);
  return s;
}

}  // namespace chimera::schedule
