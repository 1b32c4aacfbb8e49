#pragma once
namespace CLI {
class App;
}

namespace chimera::cli {

void add_bench_command(CLI::App& app);  // gemm, attention, step

}  // namespace chimera::cli
