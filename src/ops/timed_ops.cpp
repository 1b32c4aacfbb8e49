#include "chimera/ops/timed_ops.h"

#include <chrono>

namespace chimera {
namespace {

class TimedOps final : public Ops {
 public:
  TimedOps(std::unique_ptr<Ops> inner, std::map<std::string, OpTime>& times)
      : inner_(std::move(inner)), times_(times) {}

  void matmul(Tensor out, Tensor a, Transpose ta, Tensor b, Transpose tb, Write mode,
              Tensor bias) override {
    const Index K = a.dim(ta == Transpose::No ? 1 : 0);
    times_["matmul"].flops += 2.0 * static_cast<double>(out.size()) * static_cast<double>(K);
    timed("matmul", [&] { inner_->matmul(out, a, ta, b, tb, mode, bias); });
  }
  void bias_backward(Tensor dbias, Tensor dy) override {
    timed("bias backward", [&] { inner_->bias_backward(dbias, dy); });
  }
  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                         const Dropout& d) override {
    timed("embedding forward", [&] { inner_->embedding_forward(x, tokens, wte, wpe, T, d); });
  }
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout& d) override {
    timed("embedding backward", [&] { inner_->embedding_backward(dwte, dwpe, dx, tokens, T, d); });
  }
  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon) override {
    timed("layernorm forward",
          [&] { inner_->layernorm_forward(y, mean, rstd, x, gain, bias, epsilon); });
  }
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode) override {
    timed("layernorm backward",
          [&] { inner_->layernorm_backward_input(dx, mean, rstd, dy, x, gain, mode); });
  }
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x) override {
    timed("layernorm backward",
          [&] { inner_->layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x); });
  }
  void gelu_forward(Tensor y, Tensor x) override {
    timed("gelu forward", [&] { inner_->gelu_forward(y, x); });
  }
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) override {
    timed("gelu backward", [&] { inner_->gelu_backward(dx, dy, x); });
  }
  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H, const Dropout& d) override {
    timed("attention forward", [&] { inner_->attention_forward(out, lse, qkv, H, d); });
  }
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout& d) override {
    timed("attention backward",
          [&] { inner_->attention_backward(dqkv, delta, dout, out, lse, qkv, H, d); });
  }
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                        Index H) override {
    timed("attention cached", [&] { inner_->attention_cached(out, keys, values, qkv, first, H); });
  }
  void residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout& d) override {
    timed("residual", [&] { inner_->residual_forward(out, residual, branch, d); });
  }
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout& d) override {
    timed("residual", [&] { inner_->residual_backward(dbranch, dout, d); });
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient g) override {
    timed("cross entropy",
          [&] { inner_->cross_entropy(losses, logits, targets, smoothing, scale, g); });
  }
  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) override {
    timed("adamw", [&] { inner_->adamw(tensors, step); });
  }
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override {
    timed("gradient norm", [&] { inner_->sum_squares(sums, tensors); });
  }
  void sum_rows(Tensor sums, Tensor x) override {
    timed("sum of losses", [&] { inner_->sum_rows(sums, x); });
  }
  void convert(Tensor out, Tensor x) override {
    timed("convert", [&] { inner_->convert(out, x); });
  }

 private:
  template <class Call>
  void timed(const char* name, const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    OpTime& time = times_[name];
    time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++time.calls;
  }

  std::unique_ptr<Ops> inner_;
  std::map<std::string, OpTime>& times_;
};

}  // namespace

std::unique_ptr<Ops> make_timed_ops(std::unique_ptr<Ops> inner,
                                    std::map<std::string, OpTime>& times) {
  return std::make_unique<TimedOps>(std::move(inner), times);
}

}  // namespace chimera
