#pragma once
// Every piece of math, with its contract. The CPU implementation (kernels/cpu) is the
// specification; other backends are tested against it. Outputs come first, then what is saved,
// inputs, parameters, sizes. Letters: B samples, T tokens of a sample, R = B * T rows, C channels,
// H heads, V vocabulary. Gradients of weights are always added to (dW +=); every other output is
// overwritten, unless it says so. The public methods check types and shapes (src/ops, one file per
// group of ops), pass the call through the interceptors, and call the backend's do_*.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chimera/ops/contract.h"
#include "chimera/ops/op_interceptor.h"
#include "chimera/tensor/tensor.h"

namespace chimera {

enum class Write { Set, Add };
enum class Transpose { No, Yes };

// Which random mask: a function of placement-free things alone, so that any layout, recompute and
// resume draw the same one. Element e of the sample (its position in the sample's own (T, C) or (H,
// T, T) array) is kept when uniform(philox(key = seed, counter = {e / 4, sample low, sample high, 4
// * layer + site}) word e % 4) >= probability; kept values are scaled by 1 / (1 - probability).
enum class DropoutSite : int {
  Embedding = 0,
  Attention = 1,
  AttentionResidual = 2,
  MlpResidual = 3
};
struct Dropout {
  float probability = 0;  // 0: off
  std::uint64_t seed = 0;
  Index first_sample = 0;  // global number of the first sample among the rows
  int layer = 0;
  DropoutSite site = DropoutSite::Embedding;
};

// One AdamW step (Loshchilov and Hutter, ICLR'19; decoupled decay, epsilon outside the root):
// g = grad * grad_scale; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; p -= rate *
// decay * p; p -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
struct AdamWStep {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float grad_scale = 1;
  Index t = 1;  // counts from 1
  // How `weight` is rounded: to nearest even, or at random such that the mean is exact
  // (chimera/ops/stochastic.h).
  bool stochastic = false;
  std::uint64_t seed = 0;
};
// One parameter, or a part of it, with what the step does to it alone.
struct AdamWTensor {
  Tensor param, m, v, grad;  // F32, equal sizes
  Tensor weight;             // BF16 or F16 of the same size: becomes param, rounded; or empty
  float rate = 0, decay = 0;
  Index order = 0;  // number of the parameter in the model
  Index first = 0;  // which of the parameter's elements the tensors begin with
};

enum class Gradient { None, InPlace };

class Ops {
 public:
  Ops() = default;
  virtual ~Ops() = default;
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;

  // From now on each call passes through `interceptor`, outside of those that are there already.
  void add_interceptor(std::unique_ptr<OpInterceptor> interceptor);

  // out (M, N) = or += a' (M, K) b' (K, N) + bias (N), where ' transposes as told; bias may be
  // empty.
  void matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
              Write mode, Tensor bias = {});
  // dbias (N) += column sums of dy (R, N), rows added in ascending order.
  void bias_backward(Tensor dbias, Tensor dy);

  // x (R, C) = dropout(wte[token] + wpe[row % T]); wte (V, C), wpe (P >= T, C), tokens I32 (R).
  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T, const Dropout&);
  // dwte (V, C) += and dwpe (P, C) += from dx (R, C), rows in ascending order. dwpe empty: fixed
  // positions. dx is overwritten by the gradient before the dropout.
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout&);

  // y = gain * xhat + bias with xhat = (x - mean) * rstd per row. x, y (R, C); mean, rstd F32 (R).
  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon);
  // With g = dy * gain: dx = or += rstd * (g - avg(g) - xhat * avg(g * xhat)). dx may be x (Set).
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode);
  // dgain += sum over rows of dy * xhat; dbias += sum of dy.
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x);

  // y = x * Phi(x), tanh approximation: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
  // y may be x.
  void gelu_forward(Tensor y, Tensor x) {
    run_elementwise("gelu forward", {writes(y, "y"), reads(x, "x")},
                    [&] { do_gelu_forward(y, x); });
  }
  // dx = dy * gelu'(x); dx may be dy or x.
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) {
    run_elementwise("gelu backward", {writes(dx, "dx"), reads(dy, "dy"), reads(x, "x")},
                    [&] { do_gelu_backward(dx, dy, x); });
  }

  // Causal attention, tiled with online softmax: O(T) memory. out (B, T, C); lse F32 (B, H, T) the
  // log-sum-exp of each row of scores; qkv (B, T, 3, C) with C = H * head size; scores scaled by
  // 1 / sqrt(head size). Dropout acts on the probabilities.
  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H, const Dropout&);
  // dqkv (B, T, 3, C) from dout, out (B, T, C); delta F32 (B, H, T) is scratch.
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout&);
  // New rows of one sequence against a cache: qkv (R, 3, C) are the positions first … first + R -
  // 1; their keys and values are stored into keys, values (P, C) and out (R, C) attends to
  // positions 0 … own.
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first, Index H);

  // out = residual + dropout(branch); (B, T, C); out may be residual or branch.
  void residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout&);
  // dbranch = mask * dout (the gradient of the residual is dout itself); dbranch may be dout.
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout&);

  // losses F32 (R): cross entropy of each row of logits (R, V) with its target I32 (R), uniform
  // label smoothing s: (1 - s) * nll + s * mean over the vocabulary of -log p. With
  // Gradient::InPlace logits become d(sum of losses * scale)/d(logits).
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient);

  // The step on every tensor of the list.
  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep&);

  // sums[i] += sum of squares of tensors[i], F32, in double over blocks of 4,096 elements from its
  // first on, blocks added to sums[i] in order: the same for any number of threads, and a tensor
  // cut at blocks continues. Not finite when any element is not. Returns with the sums: a device is
  // waited for once.
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors);
  double sum_squares(const Tensor& x, double before = 0) {
    sum_squares(std::span(&before, 1), std::span(&x, 1));
    return before;
  }
  // sums F64 (R): the sum in double of each row of x F32 (R, C), in ascending order on the CPU.
  void sum_rows(Tensor sums, Tensor x);

  // out = x, equal sizes, no overlap: from F32 to BF16 or F16, rounded to nearest even, or back.
  void convert(Tensor out, Tensor x);

  // Composite ops, several of the above at once. src/ops/composite.cpp computes them one after the
  // other and so says what they are; a backend may need fewer passes, and add in another order.

  // out = residual + dropout(branch), (B, T, C); y, mean, rstd = layernorm(out) over its rows. out
  // may be residual or branch.
  void residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out, Tensor residual,
                                  Tensor branch, Tensor gain, Tensor bias, float epsilon,
                                  const Dropout&);
  // layernorm_backward_weight and layernorm_backward_input.
  void layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                          Tensor dy, Tensor x, Tensor gain, Write mode);
  // pre (R, N) = x (R, K) w (K, N) + bias (N); gelu (R, N) = GELU of pre.
  void linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias);
  // dpre (R, N) = (dy (R, K) w') * gelu'(pre (R, N)) for w (N, K).
  void linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre);
  // dw (K, N) += x' dy and dbias (N) += column sums of dy, for x (R, K) and dy (R, N).
  void linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy);

 protected:
  // What a backend computes: called once the contract holds, with what the check found out
  // (contract.h). The last five call the ops that they consist of, unless a backend does better.
  virtual void do_matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b,
                         Transpose transpose_b, Write mode, Tensor bias,
                         const contract::Product&) = 0;
  virtual void do_bias_backward(Tensor dbias, Tensor dy, contract::Rows) = 0;
  virtual void do_embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe,
                                    const contract::Lookup&) = 0;
  virtual void do_embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens,
                                     const contract::Lookup&) = 0;
  virtual void do_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain,
                                    Tensor bias, float epsilon, contract::Rows) = 0;
  virtual void do_layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                           Tensor gain, Write mode, contract::Rows) = 0;
  virtual void do_layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                                            Tensor dy, Tensor x, contract::Rows) = 0;
  virtual void do_gelu_forward(Tensor y, Tensor x) = 0;
  virtual void do_gelu_backward(Tensor dx, Tensor dy, Tensor x) = 0;
  virtual void do_attention_forward(Tensor out, Tensor lse, Tensor qkv,
                                    const contract::Attention&) = 0;
  virtual void do_attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                                     Tensor qkv, const contract::Attention&) = 0;
  virtual void do_attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv,
                                   const AttentionShape&) = 0;
  virtual void do_residual_forward(Tensor out, Tensor residual, Tensor branch,
                                   const contract::Samples&) = 0;
  virtual void do_residual_backward(Tensor dbranch, Tensor dout, const contract::Samples&) = 0;
  virtual void do_cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing,
                                float scale, Gradient, contract::Rows) = 0;
  virtual void do_adamw(std::span<const AdamWTensor> tensors, const AdamWStep&) = 0;
  virtual void do_sum_squares(std::span<double> sums, std::span<const Tensor> tensors) = 0;
  virtual void do_sum_rows(Tensor sums, Tensor x, contract::Rows) = 0;
  virtual void do_convert(Tensor out, Tensor x) = 0;
  virtual void do_residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out,
                                             Tensor residual, Tensor branch, Tensor gain,
                                             Tensor bias, float epsilon, const Dropout&,
                                             const Mask&, contract::Rows);
  virtual void do_layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean,
                                     Tensor rstd, Tensor dy, Tensor x, Tensor gain, Write mode,
                                     contract::Rows);
  virtual void do_linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias);
  virtual void do_linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre);
  virtual void do_linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy);

 private:
  using Operands = std::span<const Operand>;
  using OperandList = std::initializer_list<Operand>;

  // `call` through the interceptors, unless an op that passed through them consists of this one.
  template <class Call>
  void run(const char* name, Operands operands, const Call& call, double flops = 0) {
    if (interceptors_.empty() || inside_) return call();
    run_intercepted({name, operands, flops}, std::ref(call));
  }
  template <class Call>
  void run(const char* name, OperandList operands, const Call& call, double flops = 0) {
    run(name, Operands(operands.begin(), operands.size()), call, flops);
  }
  // Operands of the same size, all of the type of activations; no other contract.
  template <class Call>
  void run_elementwise(const char* name, OperandList operands, const Call& call) {
    check_elementwise(name, operands);
    run(name, operands, call);
  }
  static void check_elementwise(const char* name, OperandList operands);
  // `fused`, or `parts` where an interceptor wants to see the ops that the op consists of.
  template <class Fused, class Parts>
  void run_composite(const char* name, OperandList operands, const Fused& fused,
                     const Parts& parts) {
    if (!inside_ && decomposed(Operands(operands.begin(), operands.size()))) return parts();
    run(name, operands, fused);
  }
  bool decomposed(Operands operands) const;
  void run_intercepted(const OpCall& op, const std::function<void()>& call);
  void run_through(std::size_t count, const OpCall& op, const std::function<void()>& call);

  std::vector<std::unique_ptr<OpInterceptor>> interceptors_;  // the outermost last
  bool inside_ = false;
};

// Vectorised for the instruction set found at start, on the calling thread's team.
// `isa` forces one ("baseline", "avx2", "avx512"); "auto" takes the best that the machine has.
std::unique_ptr<Ops> make_cpu_ops(const std::string& isa = "auto");
// The instruction sets compiled in that this machine can run, best last; and the one "auto" takes.
std::string cpu_isa_report();
// Version of the library behind matmul, for the manifest: "oneDNN 2.6.3 (gomp)".
std::string matmul_library();

}  // namespace chimera
