#pragma once
// The tables of kernels, one per instruction set.
#include <string>
#include <vector>

#include "kernels.h"

namespace chimera::cpu {

// Tables that this machine can run, best last.
std::vector<Kernels> usable_kernels();
// The best one for "auto", else the one with that name; UsageError where this machine has none.
Kernels choose_kernels(const std::string& isa);

}  // namespace chimera::cpu
