// A simulation in the Chrome trace format (one event object per line; times in microseconds).
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "render_shared.h"

namespace chimera::schedule {
namespace {

constexpr int kWorkers = 0, kReductions = 1;  // processes of the trace
constexpr double kMicroseconds = 1e6;

class Trace {
 public:
  void name(const char* what, int process, int thread, const std::string& name) {
    add({{"ph", "M"},
         {"name", what},
         {"pid", process},
         {"tid", thread},
         {"args", {{"name", name}}}});
  }
  void span(const Schedule& schedule, int process, int worker, const Occupied& o) {
    Json args = {{"step", o.step}, {"stage", o.instr.stage}};
    if (o.instr.pipe >= 0) args["pipe"] = pipe_name(o.instr.pipe, schedule.pipeline_pairs);
    if (o.instr.micro >= 0) args["micro"] = o.instr.micro;
    if (o.instr.count > 1) args["count"] = o.instr.count;
    if (o.instr.version > 0) args["version"] = o.instr.version;
    add({{"ph", "X"},
         {"name", to_string(o.instr)},
         {"cat", to_string(o.instr.op)},
         {"pid", process},
         {"tid", worker},
         {"ts", o.start * kMicroseconds},
         {"dur", (o.end - o.start) * kMicroseconds},
         {"args", args}});
  }
  void buffers(int worker, const BuffersInUse& use) {
    add({{"ph", "C"},
         {"name", concat("buffers of worker ", worker)},
         {"pid", kWorkers},
         {"ts", use.time * kMicroseconds},
         {"args", {{"activations", use.activations}, {"boundary", use.boundary}}}});
  }
  std::string finish(const std::string& title) && {
    return "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"schedule\": " + Json(title).dump() +
           "},\n\"traceEvents\": [\n" + events_ + "\n]}\n";
  }

 private:
  void add(const Json& event) { events_ += (events_.empty() ? "" : ",\n") + event.dump(); }
  std::string events_;
};

}  // namespace

std::string render_trace(const Schedule& schedule, const Simulation& simulation) {
  Trace trace;
  trace.name("process_name", kWorkers, 0, "workers");
  bool reduces = false;
  for (int w = 0; w < static_cast<int>(simulation.workers.size()); ++w) {
    const WorkerTimes& worker = simulation.workers[static_cast<std::size_t>(w)];
    trace.name("thread_name", kWorkers, w, concat("worker ", w));
    for (const Occupied& o : worker.cells) trace.span(schedule, kWorkers, w, o);
    for (const BuffersInUse& use : worker.memory) trace.buffers(w, use);
    if (worker.reductions.empty()) continue;
    if (!reduces) trace.name("process_name", kReductions, 0, "reductions");
    reduces = true;
    trace.name("thread_name", kReductions, w, concat("worker ", w));
    for (const Occupied& o : worker.reductions) trace.span(schedule, kReductions, w, o);
  }
  return std::move(trace).finish(heading(schedule));
}

}  // namespace chimera::schedule
