#include "on_device.h"

#include <algorithm>
#include <map>

namespace chimera::test {
namespace {

Tensor with_data(const Tensor& t, void* data) {
  switch (t.rank()) {
    case 1: return Tensor(data, t.type(), {t.dim(0)});
    case 2: return Tensor(data, t.type(), {t.dim(0), t.dim(1)});
    case 3: return Tensor(data, t.type(), {t.dim(0), t.dim(1), t.dim(2)});
    default: return Tensor(data, t.type(), {t.dim(0), t.dim(1), t.dim(2), t.dim(3)});
  }
}

// The tensors of one call on the device. Tensors that begin at the same number share memory there
// too.
class Copies {
 public:
  Copies(CudaDevice& device, std::span<const Tensor> tensors) : device_(device) {
    for (const Tensor& t : tensors)
      if (!t.empty()) copies_[t.raw()].bytes = std::max(copies_[t.raw()].bytes, t.bytes());
    for (auto& [host, copy] : copies_) {
      // The alignment too is the host's: kernels move 128 bits at once only where they may.
      copy.shift = static_cast<Index>(reinterpret_cast<std::uintptr_t>(host) % 16);
      copy.buffer = Buffer(device, copy.bytes + copy.shift);
      device.copy_in(copy.data(), host, copy.bytes);
    }
  }
  Tensor operator()(const Tensor& t) const {
    return t.empty() ? t : with_data(t, copies_.at(t.raw()).data());
  }
  void copy_out() {
    for (const auto& [host, copy] : copies_) device_.copy_out(host, copy.data(), copy.bytes);
  }

 private:
  struct Copy {
    Index bytes = 0, shift = 0;
    Buffer buffer;
    std::byte* data() const { return buffer.data() + shift; }
  };
  CudaDevice& device_;
  std::map<void*, Copy> copies_;
};

class OnDeviceOps final : public Ops {
 public:
  OnDeviceOps() : device_(make_cuda_device(0)), ops_(make_cuda_ops(*device_)) {}

  void matmul(Tensor out, Tensor a, Transpose ta, Tensor b, Transpose tb, Write mode,
              Tensor bias) override {
    run({out, a, b, bias},
        [&](const Copies& on) { ops_->matmul(on(out), on(a), ta, on(b), tb, mode, on(bias)); });
  }
  void bias_backward(Tensor dbias, Tensor dy) override {
    run({dbias, dy}, [&](const Copies& on) { ops_->bias_backward(on(dbias), on(dy)); });
  }
  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                         const Dropout& d) override {
    run({x, tokens, wte, wpe}, [&](const Copies& on) {
      ops_->embedding_forward(on(x), on(tokens), on(wte), on(wpe), T, d);
    });
  }
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout& d) override {
    run({dwte, dwpe, dx, tokens}, [&](const Copies& on) {
      ops_->embedding_backward(on(dwte), on(dwpe), on(dx), on(tokens), T, d);
    });
  }
  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon) override {
    run({y, mean, rstd, x, gain, bias}, [&](const Copies& on) {
      ops_->layernorm_forward(on(y), on(mean), on(rstd), on(x), on(gain), on(bias), epsilon);
    });
  }
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode) override {
    run({dx, mean, rstd, dy, x, gain}, [&](const Copies& on) {
      ops_->layernorm_backward_input(on(dx), on(mean), on(rstd), on(dy), on(x), on(gain), mode);
    });
  }
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x) override {
    run({dgain, dbias, mean, rstd, dy, x}, [&](const Copies& on) {
      ops_->layernorm_backward_weight(on(dgain), on(dbias), on(mean), on(rstd), on(dy), on(x));
    });
  }
  void gelu_forward(Tensor y, Tensor x) override {
    run({y, x}, [&](const Copies& on) { ops_->gelu_forward(on(y), on(x)); });
  }
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) override {
    run({dx, dy, x}, [&](const Copies& on) { ops_->gelu_backward(on(dx), on(dy), on(x)); });
  }
  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H, const Dropout& d) override {
    run({out, lse, qkv},
        [&](const Copies& on) { ops_->attention_forward(on(out), on(lse), on(qkv), H, d); });
  }
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout& d) override {
    run({dqkv, delta, dout, out, lse, qkv}, [&](const Copies& on) {
      ops_->attention_backward(on(dqkv), on(delta), on(dout), on(out), on(lse), on(qkv), H, d);
    });
  }
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                        Index H) override {
    run({out, keys, values, qkv}, [&](const Copies& on) {
      ops_->attention_cached(on(out), on(keys), on(values), on(qkv), first, H);
    });
  }
  void residual_forward(Tensor out, Tensor residual, Tensor branch, const Dropout& d) override {
    run({out, residual, branch},
        [&](const Copies& on) { ops_->residual_forward(on(out), on(residual), on(branch), d); });
  }
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout& d) override {
    run({dbranch, dout},
        [&](const Copies& on) { ops_->residual_backward(on(dbranch), on(dout), d); });
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient gradient) override {
    run({losses, logits, targets}, [&](const Copies& on) {
      ops_->cross_entropy(on(losses), on(logits), on(targets), smoothing, scale, gradient);
    });
  }
  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) override {
    std::vector<Tensor> all;
    for (const AdamWTensor& x : tensors)
      all.insert(all.end(), {x.param, x.m, x.v, x.grad, x.weight});
    run(all, [&](const Copies& on) {
      std::vector<AdamWTensor> there(tensors.begin(), tensors.end());
      for (AdamWTensor& x : there)
        for (Tensor* t : {&x.param, &x.m, &x.v, &x.grad, &x.weight}) *t = on(*t);
      ops_->adamw(there, step);
    });
  }
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override {
    run(tensors, [&](const Copies& on) {
      std::vector<Tensor> there(tensors.begin(), tensors.end());
      for (Tensor& t : there) t = on(t);
      ops_->sum_squares(sums, there);
    });
  }
  void sum_rows(Tensor sums, Tensor x) override {
    run({sums, x}, [&](const Copies& on) { ops_->sum_rows(on(sums), on(x)); });
  }
  void convert(Tensor out, Tensor x) override {
    run({out, x}, [&](const Copies& on) { ops_->convert(on(out), on(x)); });
  }
  void residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out, Tensor residual,
                                  Tensor branch, Tensor gain, Tensor bias, float epsilon,
                                  const Dropout& d) override {
    run({y, mean, rstd, out, residual, branch, gain, bias}, [&](const Copies& on) {
      ops_->residual_layernorm_forward(on(y), on(mean), on(rstd), on(out), on(residual), on(branch),
                                       on(gain), on(bias), epsilon, d);
    });
  }
  void layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                          Tensor dy, Tensor x, Tensor gain, Write mode) override {
    run({dx, dgain, dbias, mean, rstd, dy, x, gain}, [&](const Copies& on) {
      ops_->layernorm_backward(on(dx), on(dgain), on(dbias), on(mean), on(rstd), on(dy), on(x),
                               on(gain), mode);
    });
  }
  void linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) override {
    run({gelu, pre, x, w, bias}, [&](const Copies& on) {
      ops_->linear_gelu_forward(on(gelu), on(pre), on(x), on(w), on(bias));
    });
  }
  void linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) override {
    run({dpre, dy, w, pre},
        [&](const Copies& on) { ops_->linear_gelu_backward(on(dpre), on(dy), on(w), on(pre)); });
  }
  void linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) override {
    run({dw, dbias, x, dy},
        [&](const Copies& on) { ops_->linear_backward_weight(on(dw), on(dbias), on(x), on(dy)); });
  }

 private:
  template <class Body>
  void run(std::initializer_list<Tensor> tensors, const Body& body) {
    run(std::span(tensors.begin(), tensors.size()), body);
  }
  template <class Body>
  void run(std::span<const Tensor> tensors, const Body& body) {
    Copies on(*device_, tensors);
    body(on);
    ops_->check();
    on.copy_out();
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaOps> ops_;
};

}  // namespace

std::unique_ptr<Ops> make_on_device_ops() { return std::make_unique<OnDeviceOps>(); }

}  // namespace chimera::test
