#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera bench gemm, chimera bench attention: added to the command `bench`.
void add_kernel_benchmarks(CLI::App& bench);

}  // namespace chimera::cli
