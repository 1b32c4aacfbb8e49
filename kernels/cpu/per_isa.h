#pragma once
// CHIMERA_ISA is the namespace of this translation unit: baseline, avx2 or avx512. Each kernel file
// defines the function that puts its kernels into the table.
#include "kernels.h"

namespace chimera::cpu::CHIMERA_ISA {

void add_adamw(Kernels&);
void add_attention_backward(Kernels&);
void add_attention_forward(Kernels&);
void add_column_sums(Kernels&);
void add_cross_entropy(Kernels&);
void add_dropout(Kernels&);
void add_embedding(Kernels&);
void add_gelu(Kernels&);
void add_layernorm(Kernels&);
void add_machine_limits(Kernels&);
void add_sum_squares(Kernels&);

// The whole table of this instruction set.
void fill_table(Kernels&);

}  // namespace chimera::cpu::CHIMERA_ISA
