#pragma once
// Ops over 16-bit tensors by those over fp32 ones: the specification of bf16 and fp16.
#include <memory>

#include "chimera/ops/ops.h"

namespace chimera {

// `inner` with an interceptor. Calls with BF16 or F16 among their activations, gradients of
// activations or weights: `inner` computes on these, widened, in fp32, and each result of 16 bits
// is rounded once, to nearest even (Write::Add: the sum). Ops that are several at once are done one
// by one, so each of them rounds. Calls on fp32 alone go to `inner` as they are. Widened copies are
// in host memory that grows to the largest that was needed; so `inner` is of the CPU.
std::unique_ptr<Ops> make_half_ops(std::unique_ptr<Ops> inner);

}  // namespace chimera
