#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

// chimera bench gpu ops, chimera bench gpu step: added to the command `bench`.
void add_gpu_benchmarks(CLI::App& bench);

}  // namespace chimera::cli
