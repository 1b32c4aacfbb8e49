// CudaOps: the checks of every backend, then one call of kernels.h per op.
#include "chimera/ops/cuda_ops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "chimera/ops/contract.h"
#include "fused_linear.h"
#include "kernels.h"
#include "library_attention.h"
#include "matmul.h"
#include "scratch.h"
#include "uploads.h"

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
        scratch_(stream_),
        choices_(settings.choices, choice_scope(matmul_library())),
        ways_(stream_, settings.epilogues, settings.attention, choices_),
        matmul_(stream_, {settings.time_matmul, settings.tf32}, choices_),
        linear_(stream_, matmul_, scratch_, ways_),
        attention_(stream_, settings.attention, ways_),
        uploads_(stream_) {
    clear_bad();
  }

  void matmul(Tensor out, Tensor a, Transpose transpose_a, Tensor b, Transpose transpose_b,
              Write mode, Tensor bias) override {
    const auto [M, N, K] = contract::matmul(out, a, transpose_a, b, transpose_b, bias);
    if (M == 0 || N == 0) return;
    activate();
    const bool add = mode == Write::Add;
    if (K == 0) return fill_rows(out.f32(), floats(bias), add, M, N, stream_);
    matmul_.run({out.raw(), a.raw(), b.raw(), bias.raw(), a.type(), out.type(),
                 transpose_a == Transpose::Yes, transpose_b == Transpose::Yes, add, M, N, K});
  }
  void linear_gelu_forward(Tensor gelu, Tensor pre, Tensor x, Tensor w, Tensor bias) override {
    contract::matmul(pre, x, Transpose::No, w, Transpose::No, bias);
    contract::gelu_forward(gelu, pre);
    activate();
    linear_.gelu_forward(gelu, pre, x, w, bias,
                         [&] { Ops::linear_gelu_forward(gelu, pre, x, w, bias); });
  }
  void linear_gelu_backward(Tensor dpre, Tensor dy, Tensor w, Tensor pre) override {
    contract::matmul(dpre, dy, Transpose::No, w, Transpose::Yes, {});
    contract::gelu_backward(dpre, dpre, pre);
    activate();
    linear_.gelu_backward(dpre, dy, w, pre, [&] { Ops::linear_gelu_backward(dpre, dy, w, pre); });
  }
  void linear_backward_weight(Tensor dw, Tensor dbias, Tensor x, Tensor dy) override {
    contract::matmul(dw, x, Transpose::Yes, dy, Transpose::No, {});
    contract::bias_backward(dbias, dy);
    activate();
    linear_.backward_weight(dw, dbias, x, dy, [&](Tensor to_w, Tensor to_bias) {
      Ops::linear_backward_weight(to_w, to_bias, x, dy);
    });
  }
  void bias_backward(Tensor dbias, Tensor dy) override {
    const auto [R, N] = contract::bias_backward(dbias, dy);
    activate();
    cuda::bias_backward(dbias.f32(), floats(dy), R, N, scratch_, stream_);
  }

  void embedding_forward(Tensor x, Tensor tokens, Tensor wte, Tensor wpe, Index T,
                         const Dropout& dropout) override {
    const auto [R, C, V, mask] = contract::embedding_forward(x, tokens, wte, wpe, T, dropout);
    activate();
    cuda::embedding_forward(x.f32(), tokens.i32(), floats(wte), floats(wpe),
                            bad(IdReader::EmbeddingForward, R, V), T, R, C, V, stream_);
    if (mask.threshold != 0) dropout_add(x.f32(), null(), floats(x), mask, R / T, T * C, stream_);
  }
  void embedding_backward(Tensor dwte, Tensor dwpe, Tensor dx, Tensor tokens, Index T,
                          const Dropout& dropout) override {
    const auto [R, C, V, mask] = contract::embedding_backward(dwte, dwpe, dx, tokens, T, dropout);
    activate();
    if (mask.threshold != 0) dropout_add(dx.f32(), null(), floats(dx), mask, R / T, T * C, stream_);
    cuda::embedding_backward(dwte.f32(), dwpe.empty() ? nullptr : dwpe.f32(), floats(dx),
                             tokens.i32(), bad(IdReader::EmbeddingBackward, R, V), T, R, C, V,
                             scratch_, stream_);
  }

  void layernorm_forward(Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                         float epsilon) override {
    const auto [R, C] = contract::layernorm_forward(y, mean, rstd, x, gain, bias);
    activate();
    cuda::layernorm_forward(y.f32(), mean.f32(), rstd.f32(), floats(x), gain.f32(), bias.f32(),
                            epsilon, R, C, stream_);
  }
  void layernorm_backward_input(Tensor dx, Tensor mean, Tensor rstd, Tensor dy, Tensor x,
                                Tensor gain, Write mode) override {
    const auto [R, C] = contract::layernorm_backward_input(dx, mean, rstd, dy, x, gain);
    activate();
    cuda::layernorm_backward_input(dx.f32(), mean.f32(), rstd.f32(), floats(dy), floats(x),
                                   gain.f32(), mode == Write::Add, R, C, stream_);
  }
  void layernorm_backward_weight(Tensor dgain, Tensor dbias, Tensor mean, Tensor rstd, Tensor dy,
                                 Tensor x) override {
    const auto [R, C] = contract::layernorm_backward_weight(dgain, dbias, mean, rstd, dy, x);
    activate();
    cuda::layernorm_backward_weight(dgain.f32(), dbias.f32(), mean.f32(), rstd.f32(), floats(dy),
                                    floats(x), R, C, scratch_, stream_);
  }

  void gelu_forward(Tensor y, Tensor x) override {
    contract::gelu_forward(y, x);
    activate();
    cuda::gelu_forward(y.f32(), floats(x), x.size(), stream_);
  }
  void gelu_backward(Tensor dx, Tensor dy, Tensor x) override {
    contract::gelu_backward(dx, dy, x);
    activate();
    cuda::gelu_backward(dx.f32(), floats(dy), floats(x), x.size(), stream_);
  }

  void attention_forward(Tensor out, Tensor lse, Tensor qkv, Index H,
                         const Dropout& dropout) override {
    const auto [s, mask] = contract::attention_forward(out, lse, qkv, H, dropout);
    activate();
    attention_.forward(out, lse, qkv, H, mask.threshold != 0, [&, &s = s, &mask = mask] {
      const float* q = qkv.f32();
      cuda::attention_forward(out.f32(), lse.f32(), q, q + s.out_row, q + 2 * s.out_row, s, mask,
                              stream_);
    });
  }
  void attention_backward(Tensor dqkv, Tensor delta, Tensor dout, Tensor out, Tensor lse,
                          Tensor qkv, Index H, const Dropout& dropout) override {
    const auto [s, mask] =
        contract::attention_backward(dqkv, delta, dout, out, lse, qkv, H, dropout);
    activate();
    const auto ours = [&, &s = s, &mask = mask] {
      const Index C = s.out_row;
      const float* q = qkv.f32();
      float* dq = dqkv.f32();
      cuda::attention_backward(dq, dq + C, dq + 2 * C, delta.f32(), floats(dout), floats(out),
                               lse.f32(), q, q + C, q + 2 * C, s, mask, stream_);
    };
    attention_.backward(dqkv, dout, out, lse, qkv, H, mask.threshold != 0, ours);
  }
  void attention_cached(Tensor out, Tensor keys, Tensor values, Tensor qkv, Index first,
                        Index H) override {
    const AttentionShape s = contract::attention_cached(out, keys, values, qkv, first, H);
    activate();
    cuda::attention_cached(out.f32(), keys.f32(), values.f32(), floats(qkv), s, stream_);
  }

  void residual_forward(Tensor out, Tensor residual, Tensor branch,
                        const Dropout& dropout) override {
    const auto [B, size, mask] = contract::residual_forward(out, residual, branch, dropout);
    activate();
    dropout_add(out.f32(), floats(residual), floats(branch), mask, B, size, stream_);
  }
  void residual_backward(Tensor dbranch, Tensor dout, const Dropout& dropout) override {
    const auto [B, size, mask] = contract::residual_backward(dbranch, dout, dropout);
    if (mask.threshold == 0 && dbranch.raw() == dout.raw()) return;
    activate();
    dropout_add(dbranch.f32(), null(), floats(dout), mask, B, size, stream_);
  }

  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, float smoothing, float scale,
                     Gradient gradient) override {
    const auto [R, V] = contract::cross_entropy(losses, logits, targets, smoothing);
    activate();
    cuda::cross_entropy(losses.f32(), logits.f32(), targets.i32(),
                        bad(IdReader::CrossEntropy, R, V), smoothing, scale,
                        gradient == Gradient::InPlace, R, V, stream_);
  }

  void adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) override {
    AdamWCommon common{.numbers = {}, .stochastic = step.stochastic, .key = {}, .step = {}};
    for (int i = 0; i < 2; ++i) {
      common.key[i] = static_cast<std::uint32_t>(step.seed >> 32 * i);
      common.step[i] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(step.t) >> 32 * i);
    }
    updated_.clear();
    Index chunks = 0;
    for (const AdamWTensor& x : tensors) {
      common.numbers = contract::adamw(x, step);
      const bool wide = aligned(x.param.f32(), x.m.f32(), x.v.f32(), x.grad.f32()) &&
                        reinterpret_cast<std::uintptr_t>(x.weight.raw()) % 8 == 0;
      updated_.push_back({.param = x.param.f32(),
                          .m = x.m.f32(),
                          .v = x.v.f32(),
                          .grad = x.grad.f32(),
                          .weight = x.weight.raw(),
                          .n = x.param.size(),
                          .first = x.first,
                          .rate = common.numbers.rate,
                          .decay_factor = common.numbers.decay_factor,
                          .order = static_cast<std::uint32_t>(x.order),
                          .chunk = narrow<std::uint32_t>(chunks),
                          .half = x.weight.type() == DType::F16,
                          .wide = wide});
      chunks += ceil_div(x.param.size(), kAdamWChunk);
    }
    activate();
    cuda::adamw(uploads_.upload(std::span<const AdamWEntry>(updated_)),
                narrow<int>(std::ssize(updated_)), chunks, common, stream_);
  }
  void sum_squares(std::span<double> sums, std::span<const Tensor> tensors) override {
    contract::sum_squares(sums, tensors);
    summed_.clear();
    Index blocks = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const float* x = floats(tensors[i]);
      summed_.push_back({x, tensors[i].size(), sums[i], blocks, aligned(x)});
      blocks += ceil_div(tensors[i].size(), Index{kSumBlock});
    }
    activate();
    // The sums and, behind them, what check() asks for: one copy brings both.
    static_assert(sizeof(BadId) == sizeof(double));
    const Index count = std::ssize(summed_), results = count + Index{kIdReaders};
    if (count == 0) return check();
    double* memory = scratch_.get<double>(results + blocks);
    cuda::sum_squares(memory, memory + results, uploads_.upload(std::span<const SumEntry>(summed_)),
                      narrow<int>(count), blocks, reinterpret_cast<const BadId*>(bad_.data()),
                      kIdReaders, stream_);
    results_.resize(static_cast<std::size_t>(results));
    device_.copy_out(results_.data(), memory, results * Index{sizeof(double)});
    BadId found[kIdReaders];
    std::memcpy(found, results_.data() + count, sizeof found);
    report(found);
    std::copy_n(results_.data(), count, sums.data());
  }
  void sum_rows(Tensor sums, Tensor x) override {
    const auto [R, C] = contract::sum_rows(sums, x);
    activate();
    cuda::sum_rows(R == 0 ? nullptr : sums.as<double>(), floats(x), R, C, stream_);
  }
  void convert(Tensor out, Tensor x) override {
    contract::convert(out, x);
    activate();
    if (out.type() == DType::BF16)
      cuda::convert(static_cast<__nv_bfloat16*>(out.raw()), floats(x), x.size(), stream_);
    else if (out.type() == DType::F16)
      cuda::convert(static_cast<__half*>(out.raw()), floats(x), x.size(), stream_);
    else if (x.type() == DType::BF16)
      cuda::convert(out.f32(), static_cast<const __nv_bfloat16*>(x.raw()), x.size(), stream_);
    else
      cuda::convert(out.f32(), static_cast<const __half*>(x.raw()), x.size(), stream_);
  }

  std::vector<std::string> describe() const override {
    std::vector<std::string> lines{matmul_.describe(), attention_.describe()};
    lines.insert(lines.end(), ways_.lines().begin(), ways_.lines().end());
    return lines;
  }

  void check() override {
    BadId found[kIdReaders];
    device_.copy_out(found, bad_.data(), bad_.bytes());
    report(found);
  }

 private:
  static const float* floats(const Tensor& x) { return x.empty() ? nullptr : x.f32(); }
  static const float* null() { return nullptr; }

  void activate() const { check_cuda(cudaSetDevice(device_.ordinal()), "selecting the GPU"); }

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
  Choices choices_;
  TwoWays ways_;
  Matmul matmul_;
  FusedLinear linear_;
  LibraryAttention attention_;
  Uploads uploads_;
  // Tables and results on the host, kept so that repeated steps allocate nothing.
  std::vector<AdamWEntry> updated_;
  std::vector<SumEntry> summed_;
  std::vector<double> results_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<CudaOps> make_cuda_ops(CudaDevice& device, const CudaOpsSettings& settings) {
  return std::make_unique<cuda::CudaOpsImpl>(device, settings);
}
std::string cuda_matmul_library() { return cuda::matmul_library(); }

}  // namespace chimera
