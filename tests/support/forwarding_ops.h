#pragma once
// Ops that hand every call on: a base for tests that change one of them.
#include <memory>

#include "chimera/ops/ops.h"

namespace chimera::test {

class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  void matmul(Tensor out, Tensor a, Transpose ta, Tensor b, Transpose tb, Write mode,
              Tensor bias) override {
    inner_->matmul(out, a, ta, b, tb, mode, bias);
  }
  void bias_backward(Tensor dbias, Tensor dy) override { inner_->bias_backward(dbias, dy); }
  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                         const Dropout& d) override {
    inner_->embedding_forward(x, tokens, wte, wpe, T, d);
  }
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout& d) override {
    inner_->embedding_backward(dwte, dwpe, dx, tokens, T, d);
  }
  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon) override {
    inner_->layernorm_forward(y, mean, rstd, x, gain, bias, epsilon);
  }
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode) override {
    inner_->layernorm_backward_input(dx, mean, rstd, dy, x, gain, mode);
  }
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x) override {
    inner_->layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);
  }
  void gelu_forward(Tensor y, Tensor x) override { inner_->gelu_forward(y, x); }
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) override { inner_->gelu_backward(dx, dy, x); }
  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H, const Dropout& d) override {
    inner_->attention_forward(out, lse, qkv, H, d);
  }
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout& d) override {
    inner_->attention_backward(dqkv, delta, dout, out, lse, qkv, H, d);
  }
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                        Index H) override {
    inner_->attention_cached(out, keys, values, qkv, first, H);
  }
  void residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout& d) override {
    inner_->residual_forward(out, residual, branch, d);
  }
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout& d) override {
    inner_->residual_backward(dbranch, dout, d);
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient gradient) override {
    inner_->cross_entropy(losses, logits, targets, smoothing, scale, gradient);
  }
  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) override {
    inner_->adamw(tensors, step);
  }
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override {
    inner_->sum_squares(sums, tensors);
  }
  void sum_rows(Tensor sums, Tensor x) override { inner_->sum_rows(sums, x); }
  void convert(Tensor out, Tensor x) override { inner_->convert(out, x); }
  void residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out, Tensor residual,
                                  Tensor branch, Tensor gain, Tensor bias, float epsilon,
                                  const Dropout& d) override {
    inner_->residual_layernorm_forward(y, mean, rstd, out, residual, branch, gain, bias, epsilon,
                                       d);
  }
  void layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                          Tensor dy, Tensor x, Tensor gain, Write mode) override {
    inner_->layernorm_backward(dx, dgain, dbias, mean, rstd, dy, x, gain, mode);
  }
  void linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) override {
    inner_->linear_gelu_forward(gelu, pre, x, w, bias);
  }
  void linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) override {
    inner_->linear_gelu_backward(dpre, dy, w, pre);
  }
  void linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) override {
    inner_->linear_backward_weight(dw, dbias, x, dy);
  }

 private:
  std::unique_ptr<Ops> inner_;
};

}  // namespace chimera::test
