// CudaOps: one call of kernels.h per op.
#include "chimera/ops/cuda_ops.h"

#include <type_traits>
#include <vector>

#include "attention/attention_dispatch.h"
#include "device/scratch.h"
#include "kernels.h"
#include "matmul/fused_linear.h"
#include "matmul/matmul.h"
#include "matmul/padded_matmul.h"
#include "optimizer/multi_tensor.h"
#include "storage_type.h"

namespace chimera {
namespace cuda {
namespace {

// Ops whose kernels read ids, in the order of CudaOpsImpl::bad_.
enum class IdReader { EmbeddingForward, EmbeddingBackward, CrossEntropy };
constexpr std::size_t kIdReaders = 3;
constexpr const char* kReaderNames[kIdReaders][2] = {{"embedding_forward", "tokens"},
                                                     {"embedding_backward", "tokens"},
                                                     {"cross_entropy", "targets"}};

class CudaOpsImpl final : public CudaOps {
 public:
  CudaOpsImpl(CudaDevice& device, const CudaOpsSettings& settings)
      : device_(device),
        stream_(device.stream()),
        bad_(device, Index{kIdReaders * sizeof(BadId)}),
        autotune_cache_(settings.autotune_cache, autotune_scope(matmul_library())),
        autotuner_(stream_, settings.epilogues, settings.attention, autotune_cache_),
        matmul_(stream_, {settings.autotune_matmul, settings.tf32}, autotune_cache_),
        padded_matmul_(stream_, matmul_, autotuner_),
        linear_(stream_, matmul_, scratch_, autotuner_),
        attention_(stream_, settings.attention, autotuner_),
        lists_(device, scratch_) {
    clear_bad();
  }

  void do_matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
                 Write mode, Tensor bias, const contract::Product& size) override {
    const auto [M, N, K] = size;
    if (M == 0 || N == 0) return;
    activate();
    const bool add = mode == Write::Add;
    if (K == 0)
      return for_storage(out.type(), [&](auto at) {
        broadcast_bias(at(out), bias.empty() ? nullptr : at(bias), add, M, N, stream_);
      });
    padded_matmul_.run({out.raw(), a.raw(), b.raw(), bias.raw(), a.type(), out.type(),
                        transpose_a == Transpose::Yes, transpose_b == Transpose::Yes, add, M, N,
                        K});
  }
  void do_linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) override {
    activate();
    linear_.gelu_forward(gelu, pre, x, w, bias,
                         [&] { Ops::do_linear_gelu_forward(gelu, pre, x, w, bias); });
  }
  void do_linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) override {
    activate();
    linear_.gelu_backward(dpre, dy, w, pre,
                          [&] { Ops::do_linear_gelu_backward(dpre, dy, w, pre); });
  }
  void do_linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) override {
    activate();
    linear_.backward_weight(dw, dbias, x, dy, [&](Tensor to_w, Tensor to_bias) {
      Ops::do_linear_backward_weight(to_w, to_bias, x, dy);
    });
  }
  void do_bias_backward(Tensor dbias, Tensor dy, contract::Rows rows) override {
    const auto [R, N] = rows;
    activate();
    for_storage(dy.type(), [&, R = R, N = N](auto at) {
      cuda::bias_backward(dbias.f32(), at(dy), R, N, scratch_, stream_);
    });
  }

  void do_embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe,
                            const contract::Lookup& size) override {
    const auto [R, T, C, V, mask] = size;
    activate();
    BadId* found = bad(IdReader::EmbeddingForward, R, V);
    for_storage(x.type(), [&, R = R, T = T, C = C, V = V](auto at) {
      cuda::embedding_forward(at(x), tokens.i32(), at(wte), at(wpe), found, T, R, C, V, stream_);
    });
    if (mask.threshold != 0) drop(x, x, mask, R / T, T * C);
  }
  void do_embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens,
                             const contract::Lookup& size) override {
    const auto [R, T, C, V, mask] = size;
    activate();
    if (mask.threshold != 0) drop(dx, dx, mask, R / T, T * C);
    BadId* found = bad(IdReader::EmbeddingBackward, R, V);
    for_storage(dx.type(), [&, R = R, T = T, C = C, V = V](auto at) {
      cuda::embedding_backward(dwte.f32(), dwpe.empty() ? nullptr : dwpe.f32(), at(dx),
                               tokens.i32(), found, T, R, C, V, scratch_, stream_);
    });
  }

  void do_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                            float epsilon, contract::Rows rows) override {
    const auto [R, C] = rows;
    activate();
    for_storage(x.type(), [&, R = R, C = C](auto at) {
      cuda::layernorm_forward(at(y), mean.f32(), rstd.f32(), at(x), at(gain), at(bias), epsilon, R,
                              C, stream_);
    });
  }
  void do_layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                   Tensor gain, Write mode, contract::Rows rows) override {
    const auto [R, C] = rows;
    activate();
    for_storage(x.type(), [&, R = R, C = C](auto at) {
      cuda::layernorm_backward_input(at(dx), mean.f32(), rstd.f32(), at(dy), at(x), at(gain),
                                     mode == Write::Add, R, C, stream_);
    });
  }
  void do_layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                    Tensor x, contract::Rows rows) override {
    const auto [R, C] = rows;
    activate();
    for_storage(x.type(), [&, R = R, C = C](auto at) {
      cuda::layernorm_backward_weight(dgain.f32(), dbias.f32(), mean.f32(), rstd.f32(), at(dy),
                                      at(x), R, C, scratch_, stream_);
    });
  }

  void do_residual_layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor out,
                                     Tensor residual, Tensor branch, Tensor gain, Tensor bias,
                                     float epsilon, const Dropout& dropout, const Mask& mask,
                                     contract::Rows rows) override {
    const auto [R, C] = rows;
    if (mask.threshold != 0 && C % 4 != 0)  // random numbers come in fours
      return Ops::do_residual_layernorm_forward(y, mean, rstd, out, residual, branch, gain, bias,
                                                epsilon, dropout, mask, rows);
    activate();
    for_storage(out.type(), [&, R = R, C = C](auto at) {
      cuda::residual_layernorm_forward(at(y), mean.f32(), rstd.f32(), at(out), at(residual),
                                       at(branch), at(gain), at(bias), epsilon, mask, branch.dim(1),
                                       R, C, stream_);
    });
  }
  void do_layernorm_backward(Tensor dx, Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd,
                             Tensor dy, Tensor x, Tensor gain, Write mode,
                             contract::Rows rows) override {
    const auto [R, C] = rows;
    activate();
    for_storage(x.type(), [&, R = R, C = C](auto at) {
      if (C > kMostFusedColumns<typename decltype(at)::Type>)
        return Ops::do_layernorm_backward(dx, dgain, dbias, mean, rstd, dy, x, gain, mode, rows);
      cuda::layernorm_backward(at(dx), dgain.f32(), dbias.f32(), mean.f32(), rstd.f32(), at(dy),
                               at(x), at(gain), mode == Write::Add, R, C, scratch_, stream_);
    });
  }

  void do_gelu_forward(Tensor y, Tensor x) override {
    activate();
    for_storage(x.type(), [&](auto at) { cuda::gelu_forward(at(y), at(x), x.size(), stream_); });
  }
  void do_gelu_backward(Tensor dx, Tensor dy, Tensor x) override {
    activate();
    for_storage(x.type(),
                [&](auto at) { cuda::gelu_backward(at(dx), at(dy), at(x), x.size(), stream_); });
  }

  void do_attention_forward(Tensor out, Tensor lse, Tensor qkv,
                            const contract::Attention& given) override {
    const auto& [s, mask] = given;
    activate();
    attention_.forward(out, lse, qkv, s.H, mask.threshold != 0, [&, &s = s, &mask = mask] {
      for_storage(qkv.type(), [&](auto at) {
        const auto* q = at(qkv);
        cuda::attention_forward(at(out), lse.f32(), q, q + s.out_row, q + 2 * s.out_row, s, mask,
                                stream_);
      });
    });
  }
  void do_attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                             Tensor qkv, const contract::Attention& given) override {
    const auto& [s, mask] = given;
    activate();
    const auto ours = [&, &s = s, &mask = mask] {
      for_storage(qkv.type(), [&](auto at) {
        const Index C = s.out_row;
        const auto* q = at(qkv);
        auto* dq = at(dqkv);
        cuda::attention_backward(dq, dq + C, dq + 2 * C, delta.f32(), at(dout), at(out), lse.f32(),
                                 q, q + C, q + 2 * C, s, mask, stream_);
      });
    };
    attention_.backward(dqkv, dout, out, lse, qkv, s.H, mask.threshold != 0, ours);
  }
  void do_attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv,
                           const AttentionShape& s) override {
    activate();
    for_storage(qkv.type(), [&](auto at) {
      cuda::attention_cached(at(out), at(keys), at(values), at(qkv), s, stream_);
    });
  }

  void do_residual_forward(Tensor out, Tensor residual, Tensor branch,
                           const contract::Samples& samples) override {
    const auto [B, size, mask] = samples;
    activate();
    for_storage(out.type(), [&, B = B, size = size, &mask = mask](auto at) {
      dropout_add(at(out), at(residual), at(branch), mask, B, size, stream_);
    });
  }
  void do_residual_backward(Tensor dbranch, Tensor dout,
                            const contract::Samples& samples) override {
    const auto [B, size, mask] = samples;
    if (mask.threshold == 0 && dbranch.raw() == dout.raw()) return;
    activate();
    drop(dbranch, dout, mask, B, size);
  }

  void do_cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                        Gradient gradient, contract::Rows rows) override {
    const auto [R, V] = rows;
    activate();
    BadId* found = bad(IdReader::CrossEntropy, R, V);
    for_storage(logits.type(), [&, R = R, V = V](auto at) {
      cuda::cross_entropy(losses.f32(), at(logits), targets.i32(), found, smoothing, scale,
                          gradient == Gradient::InPlace, R, V, stream_);
    });
  }

  void do_adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) override {
    activate();
    lists_.adamw(tensors, step);
  }
  void do_sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override {
    if (tensors.empty() && sums.empty()) return check();
    activate();
    BadId found[kIdReaders];
    lists_.sum_squares(sums, tensors, found, reinterpret_cast<const BadId*>(bad_.data()));
    report(found);
  }
  void do_sum_rows(Tensor sums, Tensor x, contract::Rows rows) override {
    const auto [R, C] = rows;
    activate();
    cuda::sum_rows(R == 0 ? nullptr : sums.as<double>(), As<float>()(x), R, C, stream_);
  }
  void do_convert(Tensor out, Tensor x) override {
    activate();
    const bool widening = out.type() == DType::F32;
    for_storage(widening ? x.type() : out.type(), [&](auto at) {
      if constexpr (!std::is_same_v<typename decltype(at)::Type, float>) {
        if (widening)
          cuda::convert(out.f32(), at(x), x.size(), stream_);
        else
          cuda::convert(at(out), As<float>()(x), x.size(), stream_);
      }
    });
  }

  std::vector<std::string> describe() const override {
    std::vector<std::string> lines{matmul_.describe(), attention_.describe()};
    lines.insert(lines.end(), autotuner_.lines().begin(), autotuner_.lines().end());
    return lines;
  }

  void check() override {
    BadId found[kIdReaders];
    device_.copy_out(found, bad_.data(), bad_.bytes());
    report(found);
  }

 private:
  void activate() const { check_cuda(cudaSetDevice(device_.ordinal()), "selecting the GPU"); }

  // to = mask * from.
  void drop(Tensor to, Tensor from, const Mask& mask, Index samples, Index size) {
    for_storage(to.type(), [&](auto at) {
      using T = typename decltype(at)::Type;
      dropout_add(at(to), static_cast<const T*>(nullptr), at(from), mask, samples, size, stream_);
    });
  }

  BadId* bad(IdReader reader, Index R, Index V) {
    const auto i = static_cast<std::size_t>(reader);
    ENSURE(R == 0 || V > 0, kReaderNames[i][0], ": ", R, " ids and an empty vocabulary");
    vocabulary_[i] = V;
    return reinterpret_cast<BadId*>(bad_.data()) + i;
  }
  void report(const BadId (&found)[kIdReaders]) {
    for (std::size_t i = 0; i < kIdReaders; ++i) {
      if (found[i] == kNoBadId) continue;
      clear_bad();
      contract::fail_id(kReaderNames[i][0], kReaderNames[i][1], static_cast<Index>(found[i] >> 32),
                        static_cast<std::int32_t>(found[i]), vocabulary_[i]);
    }
  }
  void clear_bad() {
    activate();
    check_cuda(cudaMemsetAsync(bad_.data(), 0xff, static_cast<std::size_t>(bad_.bytes()), stream_),
               "clearing the GPU's findings");
  }

  CudaDevice& device_;
  cudaStream_t stream_;
  Buffer bad_;  // BadId per IdReader
  Index vocabulary_[kIdReaders] = {};
  Scratch scratch_;
  AutotuneCache autotune_cache_;
  Autotuner autotuner_;
  Matmul matmul_;
  PaddedMatmul padded_matmul_;
  FusedLinear linear_;
  AttentionDispatch attention_;
  MultiTensor lists_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<CudaOps> make_cuda_ops(CudaDevice& device, const CudaOpsSettings& settings) {
  return std::make_unique<cuda::CudaOpsImpl>(device, settings);
}
std::string cuda_matmul_library() { return cuda::matmul_library(); }

}  // namespace chimera
