// A schedule as a file: numbers by name, instructions as the text that logs show.
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "chimera/schedule/render.h"

namespace chimera::schedule {
namespace {

constexpr const char* kFormat = "chimera-schedule";
constexpr int kVersion = 1;

Json instructions(const std::vector<Instr>& list) {
  Json out = Json::array();
  for (const Instr& in : list) out.push_back(to_string(in));
  return out;
}

// Strict reading: every key once, of the right type, and no other.
class Reader {
 public:
  Reader(const Json& value, std::string path) : value_(value), path_(std::move(path)) {}

  void only(std::initializer_list<const char*> keys) const {
    ENSURE(value_.is_object(), path_, " is not an object");
    for (const auto& [key, unused] : value_.items())
      ENSURE(std::ranges::find(keys, key) != keys.end(), path_, ".", key,
             " is not a key of a schedule");
    for (const char* key : keys) ENSURE(value_.contains(key), path_, ".", key, " is missing");
  }
  Reader operator[](const char* key) const { return {value_.at(key), path_ + "." + key}; }
  int number() const {
    ENSURE(value_.is_number_integer() && (!value_.is_number_unsigned() ||
                                          std::in_range<std::int64_t>(value_.get<std::uint64_t>())),
           path_, " is not a whole number: ", value_.dump().substr(0, 80));
    const auto number = value_.get<std::int64_t>();
    ENSURE(std::in_range<int>(number), path_, " is ", number, ", which is out of range");
    return static_cast<int>(number);
  }
  bool flag() const {
    ENSURE(value_.is_boolean(), path_, " is neither true nor false");
    return value_.get<bool>();
  }
  std::string text() const {
    ENSURE(value_.is_string(), path_, " is not a text");
    return value_.get<std::string>();
  }
  template <class Read>
  auto list(const Read& read) const {
    ENSURE(value_.is_array(), path_, " is not a list");
    std::vector<decltype(read(*this))> out;
    for (std::size_t i = 0; i < value_.size(); ++i)
      out.push_back(read(Reader{value_[i], concat(path_, "[", i, "]")}));
    return out;
  }
  std::vector<int> numbers() const {
    return list([](const Reader& r) { return r.number(); });
  }
  Instr instr() const {
    try {
      return parse_instr(text());
    } catch (const Error& error) {
      Fail(path_, ": ", error.what());
    }
  }
  std::vector<Instr> program() const {
    return list([](const Reader& r) { return r.instr(); });
  }

 private:
  const Json& value_;
  std::string path_;
};

Holder read_holder(const Reader& r) {
  r.only({"worker", "pipe", "use"});
  return {r["worker"].number(), r["pipe"].number(), r["use"].number()};
}

Group read_group(const Reader& r) {
  r.only({"stage", "holders"});
  return {r["stage"].number(), r["holders"].list(read_holder)};
}

Program read_program(const Reader& r) {
  r.only({"prologue", "body", "epilogue"});
  return {r["prologue"].program(), r["body"].program(), r["epilogue"].program()};
}

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
  out["versions"] = s.versions;
  out["slot_stride"] = s.slot_stride;
  out["slots"] = s.slots;
  out["input_slots"] = s.input_slots;
  out["placement"] = s.placement;
  out["groups"] = Json::array();
  for (const Group& group : s.groups) {
    Json holders = Json::array();
    for (const Holder& h : group.holders)
      holders.push_back({{"worker", h.worker}, {"pipe", h.pipe}, {"use", h.use}});
    out["groups"].push_back({{"stage", group.stage}, {"holders", holders}});
  }
  out["programs"] = Json::array();
  for (const Program& p : s.programs)
    out["programs"].push_back({{"prologue", instructions(p.prologue)},
                               {"body", instructions(p.body)},
                               {"epilogue", instructions(p.epilogue)}});
  return out.dump(1) + "\n";
}

Schedule from_json(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name);
  ENSURE(json.is_object() && json.contains("format") && json["format"] == kFormat, name,
         " is not a schedule file: its format is not \"", kFormat,
         "\"; `chimera schedule show --format json` writes one");
  const Reader r(json, name + ": schedule");
  r.only({"format", "version", "name", "depth", "micro_batches", "pipeline_pairs", "virtual_stages",
          "width", "tied", "forward_only", "versions", "slot_stride", "slots", "input_slots",
          "placement", "groups", "programs"});
  ENSURE(r["version"].number() == kVersion, name, ": schedule.version is ", r["version"].number(),
         "; this program reads version ", kVersion);
  Schedule s;
  s.name = r["name"].text();
  s.depth = r["depth"].number();
  s.micro_batches = r["micro_batches"].number();
  s.pipeline_pairs = r["pipeline_pairs"].number();
  s.virtual_stages = r["virtual_stages"].number();
  s.width = r["width"].number();
  s.tied = r["tied"].flag();
  s.forward_only = r["forward_only"].flag();
  s.versions = r["versions"].number();
  s.slot_stride = r["slot_stride"].number();
  s.slots = r["slots"].numbers();
  s.input_slots = r["input_slots"].numbers();
  s.placement = r["placement"].list([](const Reader& pipe) { return pipe.numbers(); });
  s.groups = r["groups"].list(read_group);
  s.programs = r["programs"].list(read_program);
  return s;
}

}  // namespace chimera::schedule
