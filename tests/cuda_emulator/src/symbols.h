#pragma once
#include <span>
#include <string>
#include <vector>

namespace emulator {

// The name of a function of this program, without its parameters, from the symbol table of the
// executable (kernels have internal linkage, so the dynamic one does not have them); "a kernel"
// where there is none.
std::string function_name(const void* address);

// Where the executable's sections whose names begin so lie in memory.
std::vector<std::span<unsigned char>> sections(const std::string& name);

}  // namespace emulator
