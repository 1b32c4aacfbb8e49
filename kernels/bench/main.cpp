// chimera_kernel_bench [threads] [isa]: every kernel, checked and then timed, as Markdown.
#include <cstdio>
#include <cstdlib>

#include "chimera/base/threads.h"
#include "chimera/ops/kernel_bench.h"
#include "chimera/ops/ops.h"

int main(int argc, char** argv) try {
  using namespace chimera;
  ensure_passive_waiting(argv);
  BenchSettings settings;
  set_team_size(argc > 1 ? std::atoi(argv[1]) : available_cores());
  if (argc > 2) settings.isa = argv[2];
  for (const BenchModel& model : bench_models())
    for (const auto table : {gemm_table, attention_table, memory_table}) {
      std::printf("%s", table(model, settings).c_str());
      std::fflush(stdout);
    }
  return 0;
} catch (const chimera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return static_cast<int>(e.code());
}
