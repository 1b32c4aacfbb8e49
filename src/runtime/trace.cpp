#include "chimera/runtime/trace.h"

#include <algorithm>
#include <cstdio>

#include "chimera/base/file.h"
#include "chimera/comm/collectives.h"

namespace chimera {
namespace {

constexpr int kTraceChannel = 102;

std::string event_json(const TraceEvent& e, int rank, double origin) {
  char times[96];
  std::snprintf(times, sizeof times, "\"ts\":%.3f,\"dur\":%.3f", 1e6 * (e.begin - origin),
                1e6 * (e.end - e.begin));
  const bool message = e.instr.message != schedule::Message::None;
  const char* kind = e.background                       ? "collective"
                     : schedule::is_compute(e.instr.op) ? "compute"
                     : message                          ? "message"
                                                        : "other";
  return concat("{\"name\":\"", to_string(e.instr), "\",\"cat\":\"", kind, "\",\"ph\":\"X\",",
                times, ",\"pid\":", rank, ",\"tid\":", e.background ? 1 : 0,
                ",\"args\":{\"step\":", e.step + 1, "}}");
}

}  // namespace

void write_traces(Communicator& comm, const std::string& directory, const std::vector<Index>& steps,
                  const std::vector<TraceEvent>& events) {
  for (const Index step : steps) {
    double origin = 0;
    for (const TraceEvent& e : events)
      if (e.step == step && (origin == 0 || e.begin < origin)) origin = e.begin;
    if (comm.size() > 1)  // rank 0's clock begins all
      broadcast(comm, kTraceChannel, 0, std::as_writable_bytes(std::span(&origin, 1)),
                "the beginning of a trace");
    std::string mine;
    for (const TraceEvent& e : events)
      if (e.step == step) mine += (mine.empty() ? "" : ",\n") + event_json(e, comm.rank(), origin);
    std::string all;
    for (const std::string& text : gather_texts(comm, kTraceChannel, comm.size(), mine, "a trace"))
      all += (all.empty() || text.empty() ? "" : ",\n") + text;
    if (comm.rank() == 0 && !all.empty())
      write_file_atomically(Path(directory) / concat("trace-step-", step + 1, ".json"),
                            "{\"traceEvents\":[\n" + all + "\n]}\n");
  }
}

}  // namespace chimera
