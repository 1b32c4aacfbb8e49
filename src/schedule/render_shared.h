#pragma once
#include <string>

#include "chimera/schedule/render.h"

namespace chimera::schedule {

std::string heading(const Schedule& schedule);  // "chimera: D = 4, N = 4, f = 1"
std::string bubble_text(
    const Timetable& table);              // "makespan 10, idle 2 per worker: bubble ratio 20.0 %"
std::string cell_label(const Instr& in);  // "F3", "B3"

}  // namespace chimera::schedule
