#include "chimera/ops/half_ops.h"

#include <algorithm>
#include <array>

#include "chimera/device/device.h"
#include "chimera/ops/contract.h"
#include "chimera/tensor/half.h"
#include "chimera/tensor/layout.h"

namespace chimera {
namespace {

bool narrow_type(const Tensor& x) { return x.type() == DType::BF16 || x.type() == DType::F16; }

template <class... Tensors>
bool any_narrow(const Tensors&... tensors) {
  return (narrow_type(tensors) || ...);
}

// fp32 copies of the tensors of one call.
class Copies {
 public:
  // Each is x itself where it is not of 16 bits. An output is rounded into x by finish().
  Tensor in(const Tensor& x) {
    if (!narrow_type(x)) return x;
    const Tensor copy = copy_of(x);
    widen(copy.f32(), x);
    return copy;
  }
  Tensor out(const Tensor& x) {
    if (!narrow_type(x)) return x;
    const Tensor copy = copy_of(x);
    outputs_.at(output_count_++) = {x, copy};
    return copy;
  }
  Tensor in_out(const Tensor& x) {
    if (!narrow_type(x)) return x;
    const Tensor copy = out(x);
    widen(copy.f32(), x);
    return copy;
  }
  Tensor written(const Tensor& x, Write mode) { return mode == Write::Add ? in_out(x) : out(x); }

  void begin() { count_ = output_count_ = 0; }
  void finish() {
    for (std::size_t i = 0; i < output_count_; ++i)
      round_into(outputs_[i].first, outputs_[i].second.f32());
  }

 private:
  static constexpr std::size_t kMost = 8;  // 16-bit tensors of one call

  Tensor copy_of(const Tensor& x) {
    Region region{0, DType::F32, x.rank(), {}};
    for (int i = 0; i < x.rank(); ++i) region.shape[static_cast<std::size_t>(i)] = x.dim(i);
    Buffer& buffer = buffers_.at(count_++);
    if (buffer.bytes() < std::max<Index>(region.bytes(), 1))
      buffer = Buffer(*device_, std::max<Index>(region.bytes(), 1));
    return Flat{buffer.data()}.at(region);
  }

  std::unique_ptr<Device> device_ = make_host_device();
  std::array<Buffer, kMost> buffers_;
  std::array<std::pair<Tensor, Tensor>, kMost> outputs_;
  std::size_t count_ = 0, output_count_ = 0;
};

class HalfOps final : public Ops {
 public:
  explicit HalfOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  void matmul(Tensor out, Tensor a, Transpose ta, Tensor b, Transpose tb, Write mode,
              Tensor bias) override {
    contract::matmul(out, a, ta, b, tb, bias);
    widened([&](Copies& c) {
      inner_->matmul(c.written(out, mode), c.in(a), ta, c.in(b), tb, mode, c.in(bias));
    });
  }
  void bias_backward(Tensor dbias, Tensor dy) override {
    contract::bias_backward(dbias, dy);
    widened([&](Copies& c) { inner_->bias_backward(dbias, c.in(dy)); });
  }

  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                         const Dropout& dropout) override {
    contract::embedding_forward(x, tokens, wte, wpe, T, dropout);
    widened([&](Copies& c) {
      inner_->embedding_forward(c.out(x), tokens, c.in(wte), c.in(wpe), T, dropout);
    });
  }
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout& dropout) override {
    contract::embedding_backward(dwte, dwpe, dx, tokens, T, dropout);
    widened([&](Copies& c) {
      inner_->embedding_backward(dwte, dwpe, c.in_out(dx), tokens, T, dropout);
    });
  }

  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon) override {
    contract::layernorm_forward(y, mean, rstd, x, gain, bias);
    widened([&](Copies& c) {
      inner_->layernorm_forward(c.out(y), mean, rstd, c.in(x), c.in(gain), c.in(bias), epsilon);
    });
  }
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode) override {
    contract::layernorm_backward_input(dx, mean, rstd, dy, x, gain);
    widened([&](Copies& c) {
      inner_->layernorm_backward_input(c.written(dx, mode), mean, rstd, c.in(dy), c.in(x),
                                       c.in(gain), mode);
    });
  }
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x) override {
    contract::layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);
    widened([&](Copies& c) {
      inner_->layernorm_backward_weight(dgain, dbias, mean, rstd, c.in(dy), c.in(x));
    });
  }

  void gelu_forward(Tensor y, Tensor x) override {
    contract::gelu_forward(y, x);
    widened([&](Copies& c) { inner_->gelu_forward(c.out(y), c.in(x)); });
  }
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) override {
    contract::gelu_backward(dx, dy, x);
    widened([&](Copies& c) { inner_->gelu_backward(c.out(dx), c.in(dy), c.in(x)); });
  }

  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H,
                         const Dropout& dropout) override {
    contract::attention_forward(out, lse, qkv, H, dropout);
    widened([&](Copies& c) { inner_->attention_forward(c.out(out), lse, c.in(qkv), H, dropout); });
  }
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout& dropout) override {
    contract::attention_backward(dqkv, delta, dout, out, lse, qkv, H, dropout);
    widened([&](Copies& c) {
      inner_->attention_backward(c.out(dqkv), delta, c.in(dout), c.in(out), lse, c.in(qkv), H,
                                 dropout);
    });
  }
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                        Index H) override {
    contract::attention_cached(out, keys, values, qkv, first, H);
    widened([&](Copies& c) {
      inner_->attention_cached(c.out(out), c.in_out(keys), c.in_out(values), c.in(qkv), first, H);
    });
  }

  void residual_forward(Tensor out, Tensor residual, Tensor branch,
                        const Dropout& dropout) override {
    contract::residual_forward(out, residual, branch, dropout);
    widened([&](Copies& c) {
      inner_->residual_forward(c.out(out), c.in(residual), c.in(branch), dropout);
    });
  }
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout& dropout) override {
    contract::residual_backward(dbranch, dout, dropout);
    widened([&](Copies& c) { inner_->residual_backward(c.out(dbranch), c.in(dout), dropout); });
  }

  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient gradient) override {
    contract::cross_entropy(losses, logits, targets, smoothing);
    widened([&](Copies& c) {
      const bool writes = gradient == Gradient::InPlace;
      inner_->cross_entropy(losses, writes ? c.in_out(logits) : c.in(logits), targets, smoothing,
                            scale, gradient);
    });
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
                                  const Dropout& dropout) override {
    if (any_narrow(y, out, residual, branch, gain, bias))
      return Ops::residual_layernorm_forward(y, mean, rstd, out, residual, branch, gain, bias,
                                             epsilon, dropout);
    inner_->residual_layernorm_forward(y, mean, rstd, out, residual, branch, gain, bias, epsilon,
                                       dropout);
  }
  void layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                          Tensor dy, Tensor x, Tensor gain, Write mode) override {
    if (any_narrow(dx, dy, x, gain))
      return Ops::layernorm_backward(dx, dgain, dbias, mean, rstd, dy, x, gain, mode);
    inner_->layernorm_backward(dx, dgain, dbias, mean, rstd, dy, x, gain, mode);
  }
  void linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) override {
    if (any_narrow(gelu, pre, x, w, bias)) return Ops::linear_gelu_forward(gelu, pre, x, w, bias);
    inner_->linear_gelu_forward(gelu, pre, x, w, bias);
  }
  void linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) override {
    if (any_narrow(dpre, dy, w, pre)) return Ops::linear_gelu_backward(dpre, dy, w, pre);
    inner_->linear_gelu_backward(dpre, dy, w, pre);
  }
  void linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) override {
    if (any_narrow(x, dy)) return Ops::linear_backward_weight(dw, dbias, x, dy);
    inner_->linear_backward_weight(dw, dbias, x, dy);
  }

 private:
  template <class Call>
  void widened(const Call& call) {
    copies_.begin();
    call(copies_);
    copies_.finish();
  }

  std::unique_ptr<Ops> inner_;
  Copies copies_;
};

}  // namespace

std::unique_ptr<Ops> make_half_ops(std::unique_ptr<Ops> inner) {
  return std::make_unique<HalfOps>(std::move(inner));
}

}  // namespace chimera
