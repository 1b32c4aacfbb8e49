#pragma once
// Attention by cuDNN where there is one, it can, and it wins; else by our own kernels.
#include "autotune/autotuner.h"
#include "cudnn_attention.h"
#include "device/scratch.h"

namespace chimera::cuda {

// Workspace that cuDNN may take; a plan that wants more is not used. Allocated when a case is seen
// first, beside the arenas.
inline constexpr Index kMostAttentionWorkspace = Index{512} << 20;

class AttentionDispatch {
 public:
  // Looks for cuDNN unless `implementation` is Own.
  AttentionDispatch(cudaStream_t stream, CudaImplementation implementation, Autotuner& autotuner);
  // With a library, or none for that reason.
  AttentionDispatch(CudaImplementation implementation, Autotuner& autotuner,
                    std::unique_ptr<CudnnAttention> library, const std::string& reason);

  // Shapes are checked before; `ours` computes it by our kernels. masked: there is dropout.
  template <class Ours>
  void forward(Tensor out, Tensor lse, Tensor qkv, Index H, bool masked, const Ours& ours) {
    const auto cudnn = [&] { return cudnn_forward(out, lse, qkv, H); };
    run(TunedOp::AttentionForward, qkv, H, masked, cudnn, ours);
  }
  template <class Ours>
  void backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv, Index H, bool masked,
                const Ours& ours) {
    const auto cudnn = [&] { return cudnn_backward(dqkv, dout, out, lse, qkv, H); };
    run(TunedOp::AttentionBackward, qkv, H, masked || dqkv.raw() == qkv.raw(), cudnn, ours);
  }
  // "attention: cuDNN 9.19.0 where it is faster", "attention: our kernels: cuDNN: libcudnn.so.9:
  // ..."
  std::string describe() const;

 private:
  template <class Cudnn, class Ours>
  void run(TunedOp op, const Tensor& qkv, Index H, bool not_eligible, const Cudnn& cudnn,
           const Ours& ours) {
    if (library_ == nullptr || not_eligible) return ours();
    const AttentionCase c = case_of(qkv, H);
    if (!cudnn_eligible(c)) return ours();
    const bool wins = autotuner_->library_wins({op, c.type, c.B, c.H, c.T, c.head}, cudnn,
                                               [&] { return ours(), true; });
    if (!wins || !cudnn()) ours();
  }
  static AttentionCase case_of(const Tensor& qkv, Index H) {
    return {qkv.type(), qkv.dim(0), H, qkv.dim(1), qkv.dim(3) / H};
  }
  // The workspace of a pass; false where there is no plan, or no memory.
  bool prepare(const AttentionCase& c, AttentionPass pass, void*& workspace);
  bool cudnn_forward(Tensor out, Tensor lse, Tensor qkv, Index H);
  bool cudnn_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv, Index H);

  CudaImplementation implementation_;
  Autotuner* autotuner_;
  std::unique_ptr<CudnnAttention> library_;
  std::string reason_;  // why there is none
  std::map<std::pair<AttentionCase, AttentionPass>, std::string> refused_;
  Scratch workspace_;
};

}  // namespace chimera::cuda
