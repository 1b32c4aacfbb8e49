#pragma once
// Schedules as text, as pictures, and as files that can be read back.
#include <string>
#include <vector>

#include "chimera/schedule/instr.h"
#include "chimera/schedule/simulate.h"
#include "chimera/schedule/timing.h"
#include "chimera/schedule/verify.h"

namespace chimera::schedule {

// "down0", "up1": pipe `pipe` of f pairs.
std::string pipe_name(int pipe, int pipeline_pairs);

// The paper's grid: one row per worker, one column per unit of time, F3 and B3 for micro-batch 3
// (I3 and W3: the halves of a split backward, R3: recomputation), `.` for a bubble; then idle units
// per worker. A steady period of overlapping steps is marked above.
std::string render_grid(const Timetable& table);

// Heading, who runs what, and one grid per timetable with its bubbles counted.
struct TitledTimetable {
  std::string title;
  Timetable table;
};
std::string render_text(const Schedule& schedule, const std::vector<TitledTimetable>& tables);

// A self-contained SVG: colours for direction and for forward, backward and weight gradient,
// hatching for recomputation, hover text per cell.
std::string render_svg(const Schedule& schedule, const std::vector<TitledTimetable>& tables);
// The same of a simulation with a timeline; reductions are lines below the computations.
std::string render_svg(const Schedule& schedule, const Simulation& simulation);

// A simulation with a timeline in the Chrome trace format, which Perfetto opens: one thread per
// worker, reductions in a process of their own, buffers in use as counters.
std::string render_trace(const Schedule& schedule, const Simulation& simulation);

// Times, bubbles by cause and memory per worker, as a table and for scripts.
std::string render_text(const Schedule& schedule, const Simulation& simulation);
std::string render_json(const Schedule& schedule, const Simulation& simulation);

// Micro-batches in flight, buffers, boundary buffers and weight versions per worker, in words.
std::string render_peaks(const VerifyReport& report);

// The lowered programs, one instruction per line.
std::string render_instructions(const Schedule& schedule);

// The whole Schedule; `from_json` returns what `to_json` was given. It refuses, naming `name` and
// the key: unknown, missing and mistyped keys, and words that are no instruction. It does not
// verify.
std::string to_json(const Schedule& schedule);
Schedule from_json(const std::string& text, const std::string& name);

}  // namespace chimera::schedule
