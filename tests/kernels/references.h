#pragma once
// Plain float64 versions of the ops, written from their contracts in ops.h and nothing else. Each
// backward is checked against finite differences of its forward (references_test.cpp).
#include "kernel_support.h"

namespace chimera::test {

// c (M, N) = a' (M, K) b' (K, N).
Doubles matmul_reference(const Doubles& a, Transpose ta, const Doubles& b, Transpose tb, Index M,
                         Index N, Index K);

struct LayernormGradients {
  Doubles x, gain, bias;
};
Doubles layernorm_reference(const Doubles& x, const Doubles& gain, const Doubles& bias, Index C);
LayernormGradients layernorm_gradients(const Doubles& dy, const Doubles& x, const Doubles& gain,
                                       Index C);

Doubles gelu_reference(const Doubles& x);
Doubles gelu_gradient(const Doubles& dy, const Doubles& x);

// Multipliers of `count` elements of one sample, by the formula of ops.h.
Doubles dropout_multipliers(const Dropout& dropout, Index sample, Index count);

struct AttentionSizes {
  Index B, H, T, head;
  Index C() const { return H * head; }
};
struct AttentionResult {
  Doubles out, lse;  // (B, T, C), (B, H, T)
};
AttentionResult attention_reference(const Doubles& qkv, AttentionSizes s, const Dropout& dropout);
Doubles attention_gradient(const Doubles& dout, const Doubles& qkv, AttentionSizes s,
                           const Dropout& dropout);

Doubles cross_entropy_reference(const Doubles& logits, const Ids& targets, double smoothing,
                                Index V);
// d(sum of losses * scale) / d(logits).
Doubles cross_entropy_gradient(const Doubles& logits, const Ids& targets, double smoothing,
                               double scale, Index V);

}  // namespace chimera::test
