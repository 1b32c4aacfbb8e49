#include "isa.h"

#include "chimera/base/check.h"
#include "chimera/ops/ops.h"

namespace chimera {
namespace cpu {

namespace baseline {
void fill_table(Kernels&);
}
#ifdef CHIMERA_X86_ISAS
namespace avx2 {
void fill_table(Kernels&);
}
namespace avx512 {
void fill_table(Kernels&);
}
#endif

std::vector<Kernels> usable_kernels() {
  std::vector<Kernels> tables(1);
  baseline::fill_table(tables.back());
#ifdef CHIMERA_X86_ISAS
  __builtin_cpu_init();
  // fill_table is itself compiled for its instruction set: ask first.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    avx2::fill_table(tables.emplace_back());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    avx512::fill_table(tables.emplace_back());
#endif
  return tables;
}

Kernels choose_kernels(const std::string& isa) {
  const auto tables = usable_kernels();
  if (isa == "auto") return tables.back();
  for (const Kernels& k : tables)
    if (isa == k.isa) return k;
  FailUsage("this machine does not run the instruction set \"", isa, "\"; it runs ",
            cpu_isa_report());
}

}  // namespace cpu

std::string cpu_isa_report() {
  std::string out;
  const auto tables = cpu::usable_kernels();
  for (const auto& k : tables) out += (out.empty() ? "" : ", ") + std::string(k.isa);
  return out + " (auto: " + tables.back().isa + ")";
}

}  // namespace chimera
