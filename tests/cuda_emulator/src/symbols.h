#pragma once
#include <string>

namespace emulator {

// The name of a function of this program, without its parameters, from the symbol table of the
// executable (kernels have internal linkage, so the dynamic one does not have them); "a kernel"
// where there is none.
std::string function_name(const void* address);

}  // namespace emulator
