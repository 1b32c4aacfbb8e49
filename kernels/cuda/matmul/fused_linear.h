#pragma once
// Products with the GELU or bias gradient beside them (ops.h), each as one product with cuBLASLt's
// epilogue where that is possible and wins, else the ops one by one.
#include "autotune/autotuner.h"
#include "device/scratch.h"
#include "matmul.h"

namespace chimera::cuda {

class FusedLinear {
 public:
  FusedLinear(cudaStream_t stream, Matmul& matmul, Scratch& partial, Autotuner& autotuner)
      : stream_(stream), matmul_(&matmul), partial_(&partial), autotuner_(&autotuner) {}

  // Shapes are checked before. `apart` computes it by the ops one by one.
  template <class Apart>
  void gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias, const Apart& apart) {
    const TunedCase c{TunedOp::GeluForward, x.type(), x.dim(0), x.dim(1), w.dim(1), 0};
    const auto fused = [&] { return fused_forward(gelu, pre, x, w, bias); };
    run(c, fused, apart);
  }
  template <class Apart>
  void gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre, const Apart& apart) {
    const TunedCase c{TunedOp::GeluBackward, dy.type(), dy.dim(0), dy.dim(1), w.dim(0), 0};
    const auto fused = [&] { return fused_backward(dpre, dy, w, pre); };
    run(c, fused, apart);
  }
  // `apart` is given dw and dbias: what is added to is timed elsewhere.
  template <class Apart>
  void backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy, const Apart& apart) {
    const TunedCase c{TunedOp::BackwardWeight, x.type(), x.dim(0), x.dim(1), dy.dim(1), 0};
    std::optional<bool> wins = autotuner_->decided(c);
    if (!wins && !capturing(stream_)) {
      const TrialMemory trial(dw.bytes() + dbias.bytes());
      if (auto* memory = static_cast<float*>(trial.get())) {
        const Tensor dw_trial(memory, DType::F32, {dw.dim(0), dw.dim(1)}),
            dbias_trial(memory + dw.size(), DType::F32, {dbias.dim(0)});
        wins = autotuner_->library_wins(
            c, [&] { return fused_weight(dw_trial, dbias_trial, x, dy); },
            [&] { return apart(dw_trial, dbias_trial), true; });
      }
    }
    if (!wins.value_or(false) || !fused_weight(dw, dbias, x, dy)) apart(dw, dbias);
  }

 private:
  template <class Fused, class Apart>
  void run(const TunedCase& c, const Fused& fused, const Apart& apart) {
    const bool wins = autotuner_->library_wins(c, fused, [&] { return apart(), true; });
    if (!wins || !fused()) apart();
  }
  bool fused_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias);
  bool fused_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre);
  bool fused_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy);

  cudaStream_t stream_;
  Matmul* matmul_;
  Scratch* partial_;
  Autotuner* autotuner_;
  Scratch sums_;  // column sums before they are added to dbias
};

}  // namespace chimera::cuda
