#include "fused_linear.h"

#include "ops/kernels.h"

namespace chimera::cuda {

bool FusedLinear::fused_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) {
  const Index R = x.dim(0), K = x.dim(1), N = w.dim(1);
  if (R == 0 || K == 0 || N == 0 || gelu.raw() == pre.raw()) return false;
  return matmul_->try_run({gelu.raw(), x.raw(), w.raw(), bias.raw(), x.type(), gelu.type(), false,
                           false, false, R, N, K, Epilogue::Gelu, pre.raw()});
}

bool FusedLinear::fused_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) {
  const Index R = dy.dim(0), K = dy.dim(1), N = w.dim(0);
  if (R == 0 || K == 0 || N == 0 || dpre.raw() == pre.raw()) return false;
  return matmul_->try_run({dpre.raw(), dy.raw(), w.raw(), nullptr, dy.type(), dpre.type(), false,
                           true, false, R, N, K, Epilogue::GeluGradient, pre.raw()});
}

bool FusedLinear::fused_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) {
  const Index R = x.dim(0), K = x.dim(1), N = dy.dim(1);
  if (R == 0 || K == 0 || N == 0) return false;
  float* sums = sums_.get<float>(N);
  if (!matmul_->try_run({dw.raw(), x.raw(), dy.raw(), nullptr, x.type(), DType::F32, true, false,
                         true, K, N, R, Epilogue::BiasGradient, nullptr, sums}))
    return false;
  bias_backward(dbias.f32(), static_cast<const float*>(sums), Index{1}, N, *partial_, stream_);
  return true;
}

}  // namespace chimera::cuda
