#pragma once
// For the files of this folder, each compiled once per instruction set: CHIMERA_ISA is the
// namespace of this translation unit, baseline, avx2 or avx512. File x.cpp defines
// CHIMERA_ISA::add_x, which puts its kernels into the table; CMake writes the function that calls
// them all from the names of the files (table.cpp.in).
#include "kernels.h"

namespace chimera::cpu::CHIMERA_ISA {

// The whole table of this instruction set.
void fill_table(Kernels&);

}  // namespace chimera::cpu::CHIMERA_ISA
