#include "per_isa.h"
#include "vec.h"

#define CHIMERA_NAME_OF(x) #x
#define CHIMERA_NAME(x) CHIMERA_NAME_OF(x)

void chimera::cpu::CHIMERA_ISA::fill_table(Kernels& k) {
  k.isa = CHIMERA_NAME(CHIMERA_ISA);
  k.lanes = kLanes;
  add_adamw(k);
  add_attention_backward(k);
  add_attention_forward(k);
  add_column_sums(k);
  add_cross_entropy(k);
  add_dropout(k);
  add_embedding(k);
  add_gelu(k);
  add_layernorm(k);
  add_machine_limits(k);
  add_sum_squares(k);
}
