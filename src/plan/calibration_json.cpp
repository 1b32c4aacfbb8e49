// The calibration as a file.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "chimera/base/json_reader.h"
#include "chimera/plan/calibration.h"

namespace chimera::plan {
namespace {

constexpr JsonFormat kFormat{"chimera-calibration", 1,
                             "`chimera bench step --save FILE` writes one"};
constexpr Index kMostBytes = Index{4} << 20;
constexpr Index kMostEntries = 1000, kMostPoints = 200;

constexpr JsonRange kSeconds{1e-12, 1e5, "seconds"};
constexpr JsonRange kLatency{0, 10, "seconds"};
constexpr JsonRange kPerByte{0, 1, "seconds per byte"};
constexpr JsonRange kSize{1, 1 << 24, ""};
constexpr JsonRange kThreads{1, 4096, "threads"};
constexpr JsonRange kRanks{1, 1e6, "ranks"};
constexpr JsonRange kMemory{1e6, 1e15, "bytes"};
constexpr JsonRange kMessage{1, 1e12, "bytes"};

// One table for reading and writing.
struct TimeKey {
  const char* key;
  double PieceTimes::*time;
};
constexpr TimeKey kTimes[] = {{"block_forward", &PieceTimes::block_forward},
                              {"block_input", &PieceTimes::block_input},
                              {"block_weight", &PieceTimes::block_weight},
                              {"block_selective", &PieceTimes::block_selective},
                              {"block_refill", &PieceTimes::block_refill},
                              {"embedding_forward", &PieceTimes::embedding_forward},
                              {"embedding_backward", &PieceTimes::embedding_backward},
                              {"head", &PieceTimes::head},
                              {"optimizer", &PieceTimes::optimizer}};

MeasuredStep read_step(const JsonReader& f) {
  f.only({"name", "C", "H", "V", "T", "B", "threads", "workers", "dropout", "seconds"});
  MeasuredStep step;
  step.name = f["name"].text(200);
  const std::pair<const char*, Index*> sizes[] = {
      {"C", &step.C}, {"H", &step.H}, {"V", &step.V}, {"T", &step.T}, {"B", &step.B}};
  for (const auto& [key, value] : sizes) *value = f[key].count(kSize);
  step.threads = f["threads"].count(kThreads);
  step.workers = f["workers"].count(kRanks);
  step.dropout = f["dropout"].flag();
  const JsonReader seconds = f["seconds"];
  seconds.only({"block_forward", "block_input", "block_weight", "block_selective", "block_refill",
                "embedding_forward", "embedding_backward", "head", "optimizer"});
  for (const TimeKey& t : kTimes) step.times.*t.time = seconds[t.key].number(kSeconds);
  return step;
}

MeasuredLink read_link(const JsonReader& f) {
  f.only({"transport", "ranks", "alpha", "beta", "points"});
  MeasuredLink link;
  link.transport = f["transport"].text(20);
  link.ranks = f["ranks"].count(kRanks);
  link.alpha = f["alpha"].number(kLatency);
  link.beta = f["beta"].number(kPerByte);
  for (const JsonReader& p : f["points"].list(kMostPoints)) {
    p.only({"bytes", "seconds"});
    link.points.push_back({p["bytes"].number(kMessage), p["seconds"].number(kSeconds)});
  }
  return link;
}

Json link_json(const MeasuredLink& link) {
  Json points = Json::array();
  for (const MeasuredLink::Point& p : link.points)
    points.push_back({{"bytes", p.bytes}, {"seconds", p.seconds}});
  return {{"transport", link.transport},
          {"ranks", link.ranks},
          {"alpha", link.alpha},
          {"beta", link.beta},
          {"points", points}};
}

Json step_json(const MeasuredStep& step) {
  Json seconds = Json::object();
  for (const TimeKey& t : kTimes) seconds[t.key] = step.times.*t.time;
  return {{"name", step.name},
          {"C", step.C},
          {"H", step.H},
          {"V", step.V},
          {"T", step.T},
          {"B", step.B},
          {"threads", step.threads},
          {"workers", step.workers},
          {"dropout", step.dropout},
          {"seconds", seconds}};
}

// Puts `fresh` in the place of the entry that `same` recognises, or at the end.
template <class T, class Same>
void put(std::vector<T>& list, const T& fresh, const Same& same) {
  const auto old = std::ranges::find_if(list, [&](const T& t) { return same(t, fresh); });
  if (old == list.end())
    list.push_back(fresh);
  else
    *old = fresh;
}

}  // namespace

Calibration parse_calibration(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonReader root = open_format(json, name, kFormat);
  root.only({"format", "version", "machine", "cores", "memory_bytes", "steps", "p2p", "allreduce"});
  Calibration c;
  c.machine = root["machine"].text(500);
  c.cores = root["cores"].count(kThreads);
  c.memory_bytes = root["memory_bytes"].number(kMemory);
  for (const JsonReader& f : root["steps"].list(kMostEntries)) c.steps.push_back(read_step(f));
  for (const JsonReader& f : root["p2p"].list(kMostEntries)) c.p2p.push_back(read_link(f));
  for (const JsonReader& f : root["allreduce"].list(kMostEntries))
    c.allreduce.push_back(read_link(f));
  return c;
}

Calibration read_calibration(const std::string& path) {
  return parse_calibration(read_file(path, kMostBytes), path);
}

std::string to_json(const Calibration& c) {
  Json out{{"format", kFormat.name},         {"version", 1},
           {"machine", c.machine},           {"cores", c.cores},
           {"memory_bytes", c.memory_bytes}, {"steps", Json::array()},
           {"p2p", Json::array()},           {"allreduce", Json::array()}};
  for (const MeasuredStep& step : c.steps) out["steps"].push_back(step_json(step));
  for (const MeasuredLink& link : c.p2p) out["p2p"].push_back(link_json(link));
  for (const MeasuredLink& link : c.allreduce) out["allreduce"].push_back(link_json(link));
  return out.dump(1) + "\n";
}

void merge_into(const std::string& path, const Calibration& fresh) {
  Calibration whole = fresh;
  if (std::filesystem::exists(path)) {
    whole = read_calibration(path);
    if (whole.machine != fresh.machine)
      FailUsage(path, " was measured on \"", whole.machine, "\", this is \"", fresh.machine,
                "\"; save to another file");
    whole.cores = fresh.cores;
    whole.memory_bytes = fresh.memory_bytes;
    const auto same_shape = [](const MeasuredStep& a, const MeasuredStep& b) {
      return a.C == b.C && a.H == b.H && a.V == b.V && a.T == b.T && a.B == b.B &&
             a.threads == b.threads && a.workers == b.workers && a.dropout == b.dropout;
    };
    const auto same_link = [](const MeasuredLink& a, const MeasuredLink& b) {
      return a.transport == b.transport && a.ranks == b.ranks;
    };
    for (const MeasuredStep& step : fresh.steps) put(whole.steps, step, same_shape);
    for (const MeasuredLink& link : fresh.p2p) put(whole.p2p, link, same_link);
    for (const MeasuredLink& link : fresh.allreduce) put(whole.allreduce, link, same_link);
  }
  write_file_atomically(path, to_json(whole));
}

}  // namespace chimera::plan
