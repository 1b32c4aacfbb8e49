#pragma once
// The CPU's variants, for tests of the CPU alone.
#include <string>
#include <vector>

namespace chimera::test {

// The instruction sets that this machine runs, best last.
std::vector<std::string> machine_isas();

}  // namespace chimera::test
