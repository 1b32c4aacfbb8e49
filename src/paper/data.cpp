// The paper's numbers and the machines' constants, from files.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "chimera/base/json_reader.h"
#include "chimera/paper/paper.h"

namespace chimera::paper {

using namespace plan;
namespace {

constexpr Index kMostBytes = Index{1} << 20;
constexpr const char* kMadeBy = "scripts/paper has the files that this reads";
constexpr JsonFormat kNumbers{"chimera-paper-numbers", 1, kMadeBy},
    kConstants{"chimera-paper-constants", 1, kMadeBy};
constexpr std::size_t kMostSource = 2000;  // bytes of text on where a number comes from
constexpr JsonRange kSize{1, 1e9, ""}, kFew{0, 1e9, ""}, kWorkers{1, 1 << 20, ""},
    kRate{1e-3, 1e9, "samples per second"};
constexpr JsonRange kPositive{1e-12, 1e18, ""}, kAnything{0, 1e18, ""};

Json read_with_comments(const std::string& path) {
  return parse_json(read_file(path, kMostBytes), path, JsonComments::Allow);
}

PaperModel read_model(const JsonReader& f) {
  f.only({"name", "layers", "C", "H", "T", "V", "first_parameters", "last_parameters",
          "head_square", "message_floats", "pointwise", "pointwise_heads", "source"});
  PaperModel m;
  m.name = f["name"].text(100);
  const std::pair<const char*, Index*> sizes[] = {{"layers", &m.layers},
                                                  {"C", &m.C},
                                                  {"H", &m.H},
                                                  {"T", &m.T},
                                                  {"V", &m.V},
                                                  {"first_parameters", &m.first_parameters},
                                                  {"last_parameters", &m.last_parameters},
                                                  {"message_floats", &m.message_floats}};
  for (const auto& [key, value] : sizes) *value = f[key].count(kSize);
  m.head_square = f["head_square"].count(kFew);
  m.pointwise = f["pointwise"].number(kAnything);
  m.pointwise_heads = f["pointwise_heads"].number(kAnything);
  f["source"].text(kMostSource);
  return m;
}

double sourced(const JsonReader& f, const JsonRange& range) {
  f.only({"value", "source"});
  f["source"].text(kMostSource);
  return f["value"].number(range);
}

PaperMachine read_machine(const JsonReader& f) {
  f.only({"name", "peak_flops", "memory_bandwidth", "half_output", "devices_per_node",
          "most_bandwidth", "optimizer_floats", "points", "derive", "constants"});
  PaperMachine m;
  m.name = f["name"].text(100);
  m.peak_flops = sourced(f["peak_flops"], kPositive);
  m.memory_bandwidth = sourced(f["memory_bandwidth"], kPositive);
  m.half_output = sourced(f["half_output"], kAnything);
  m.devices_per_node = f["devices_per_node"].count({1, 4096, "devices"});
  m.most_bandwidth = sourced(f["most_bandwidth"], kPositive);
  m.optimizer_floats = sourced(f["optimizer_floats"], kAnything);
  for (const JsonReader& p : f["points"].list(3)) {
    p.only({"figure", "name", "nodes", "why"}, {"batch"});
    p["why"].text(kMostSource);
    m.points.push_back({p["figure"].text(20), p["name"].text(100), p["nodes"].count(kWorkers),
                        p.has("batch") ? p["batch"].count(kSize) : 0});
  }
  for (const JsonReader& d : f["derive"].list(3)) m.derive.push_back(d.text(40));
  const JsonReader c = f["constants"];
  c.only({"achieved_fraction", "latency", "bandwidth"}, {"reduction_bandwidth"});
  m.achieved_fraction = c["achieved_fraction"].number({1e-3, 1, "(a share of the peak)"});
  m.latency = c["latency"].number({0, 1, "seconds"});
  m.bandwidth = c["bandwidth"].number(kPositive);
  if (c.has("reduction_bandwidth"))
    m.reduction_bandwidth = c["reduction_bandwidth"].number(kPositive);
  return m;
}

// Fills in what follows from the others: W from D and the nodes, B or N from the batch.
void complete(PaperRow& row, bool has_samples, const JsonReader& f) {
  schedule::Request& r = row.request;
  if (row.nodes % r.depth != 0) f["nodes"].wrong(concat("multiples of D, ", r.depth));
  r.width = narrow<int>(row.nodes / r.depth);
  if (row.batch % r.width != 0) f["batch"].wrong(concat("multiples of W, ", r.width));
  const Index samples = row.batch / r.width;
  if (!has_samples) row.samples = samples;
  if (samples % row.samples != 0)
    f["batch"].wrong(concat("multiples of W * B, ", r.width * row.samples));
  r.micro_batches = narrow<int>(samples / row.samples);
}

// One series of bars: those of one scheme in one figure.
void read_series(const JsonReader& f, std::vector<PaperRow>& rows) {
  f.only({"figure", "name", "model", "machine", "schedule", "D", "nodes", "batch", "measured"},
         {"B", "f", "scaling", "recompute", "sync", "paper_model"});
  PaperRow row;
  row.figure = f["figure"].text(20);
  row.name = f["name"].text(100);
  row.model = f["model"].text(100);
  row.machine = f["machine"].text(100);
  schedule::Request& r = row.request;
  r.schedule = f["schedule"].text(40);
  // Reductions at once are the paper's idea (section 3.2); the others reduce after all
  // computations.
  r.gradient_sync = f.has("sync")                              ? f["sync"].text(20)
                    : schedule::traits_of(r.schedule).featured ? "eager-opt"
                                                               : "lazy";
  if (f.has("f")) r.pipeline_pairs = narrow<int>(f["f"].count(kWorkers));
  if (f.has("scaling")) r.scaling = f["scaling"].text(20);
  if (f.has("recompute")) r.recompute = f["recompute"].flag();
  if (f.has("B")) row.samples = f["B"].count(kSize);
  const std::vector<JsonReader> depths = f["D"].list(100), nodes = f["nodes"].list(100),
                                batches = f["batch"].list(100), measured = f["measured"].list(100);
  const std::size_t count = measured.size();
  if (depths.size() != count || nodes.size() != count || batches.size() != count)
    f["measured"].wrong("as long as D, nodes and batch");
  std::vector<JsonReader> predicted;
  if (f.has("paper_model")) predicted = f["paper_model"].list(count);
  for (std::size_t i = 0; i < count; ++i) {
    PaperRow one = row;
    one.request.depth = narrow<int>(depths[i].count(kWorkers));
    one.nodes = nodes[i].count(kWorkers);
    one.batch = batches[i].count(kSize);
    one.measured = measured[i].number(kRate);
    if (i < predicted.size()) one.paper_model = predicted[i].number(kRate);
    complete(one, f.has("B"), f);
    rows.push_back(std::move(one));
  }
}

// One layout of Fig. 1 or 9 under several schemes: name, schedule, most, least.
void read_memory(const JsonReader& f, std::vector<PaperMemory>& memory) {
  f.only({"figure", "model", "D", "W", "B", "N", "recompute", "workers"});
  for (const JsonReader& w : f["workers"].list(20)) {
    w.only({"name", "schedule", "most", "least"});
    PaperMemory one;
    one.figure = f["figure"].text(20);
    one.row.figure = one.figure;
    one.row.name = w["name"].text(100);
    one.row.model = f["model"].text(100);
    one.row.samples = f["B"].count(kSize);
    schedule::Request& r = one.row.request;
    r.schedule = w["schedule"].text(40);
    r.depth = narrow<int>(f["D"].count(kWorkers));
    r.width = narrow<int>(f["W"].count(kWorkers));
    r.micro_batches = narrow<int>(f["N"].count(kWorkers));
    r.micro_batches = micro_batches_of_step(r);
    r.recompute = f["recompute"].flag();
    one.most = w["most"].number({0, 1e6, "GB"});
    one.least = w["least"].number({0, 1e6, "GB"});
    memory.push_back(std::move(one));
  }
}

template <class T, class Same>
const T& found(const std::vector<T>& list, const std::string& what, const Same& same) {
  const auto at = std::ranges::find_if(list, same);
  ENSURE(at != list.end(), "the paper's data has no ", what);
  return *at;
}

}  // namespace

const PaperModel& PaperData::model(const std::string& name) const {
  return found(models, "model " + name, [&](const PaperModel& m) { return m.name == name; });
}
const PaperMachine& PaperData::machine(const std::string& name) const {
  return found(machines, "machine " + name, [&](const PaperMachine& m) { return m.name == name; });
}
const PaperRow& PaperData::row(const PaperMachine::Point& p) const {
  return found(rows, concat("row ", p.name, " on ", p.nodes, " nodes in figure ", p.figure),
               [&](const PaperRow& r) {
                 return r.figure == p.figure && r.name == p.name && r.nodes == p.nodes &&
                        (p.batch == 0 || r.batch == p.batch);
               });
}

std::string PaperRow::label() const {
  const schedule::Request& r = request;
  return concat("W=", r.width, " D=", r.depth, " B=", samples, " N=", r.micro_batches,
                r.pipeline_pairs > 1 ? concat(" f=", r.pipeline_pairs) : "",
                r.recompute ? ", R" : "");
}

PaperData read_paper(const std::string& directory, const std::string& constants_name) {
  const std::filesystem::path folder(directory);
  const std::string numbers = folder / "numbers.json", constants = folder / constants_name;
  const Json first = read_with_comments(numbers), second = read_with_comments(constants);
  PaperData data;
  const JsonReader n = open_format(first, numbers, kNumbers),
                   c = open_format(second, constants, kConstants);
  n.only({"format", "version", "models", "series", "memory"});
  c.only({"format", "version", "machines"});
  for (const JsonReader& f : n["models"].list(100)) data.models.push_back(read_model(f));
  for (const JsonReader& f : c["machines"].list(100)) data.machines.push_back(read_machine(f));
  for (const JsonReader& f : n["series"].list(1000)) read_series(f, data.rows);
  for (const JsonReader& f : n["memory"].list(100)) read_memory(f, data.memory);
  for (const PaperRow& row : data.rows) data.model(row.model), data.machine(row.machine);
  for (const PaperMemory& m : data.memory) data.model(m.row.model);
  return data;
}

}  // namespace chimera::paper
