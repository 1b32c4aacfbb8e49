#pragma once
// Attention by cuDNN's flash kernels, where the build and the machine have cuDNN: found when the
// program runs, so that a program made with it starts without it, too. cudnn/ implements this,
// no_cudnn/ answers in a build without the headers.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chimera/tensor/tensor.h"

struct CUstream_st;

namespace chimera::cuda {

// Causal attention as in ops.h over packed qkv (B, T, 3, H * head), read with strides.
struct AttentionCase {
  DType type = DType::BF16;  // of everything but lse
  Index B = 0, H = 0, T = 0, head = 0;
  auto operator<=>(const AttentionCase&) const = default;
};
// "bf16 B 8 H 12 T 1024 head 64"
std::string to_string(const AttentionCase& c);

// What cuDNN's kernels are made for: 16-bit types, heads of a multiple of 8 up to 128.
bool cudnn_eligible(const AttentionCase& c);

enum class AttentionPass { Forward, Backward };

class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual std::string version() const = 0;  // "cuDNN 9.19.0"
  // Plans the pass, once per case (tens of milliseconds; not while the stream is captured), and
  // returns the bytes of workspace that it takes. nullopt, and the reason, where cuDNN has no plan.
  virtual std::optional<Index> prepare(const AttentionCase& c, AttentionPass pass,
                                       std::string& reason) = 0;
  // Enqueue what was prepared. lse F32 (B, H, T) is the natural logarithm of each row's sum of
  // exponentials of scaled scores, as everywhere. All pointers are aligned to 16 bytes, the
  // workspace to 256. The same bits on every run.
  virtual void forward(const AttentionCase& c, void* out, float* lse, const void* qkv,
                       void* workspace) = 0;
  virtual void backward(const AttentionCase& c, void* dqkv, const void* dout, const void* out,
                        const float* lse, const void* qkv, void* workspace) = 0;
};

// On the current device and `stream`. Null, and the reason, where there is no cuDNN.
std::unique_ptr<CudnnAttention> find_cudnn_attention(CUstream_st* stream, std::string& reason);

// Whether cuDNN would run both passes on a GPU that is only described (cuDNN's own JSON): what can
// be proved on a machine without one. A line per stage, "forward: check_support: ok"; throws where
// a stage fails.
std::vector<std::string> check_cudnn_attention(const AttentionCase& c,
                                               const std::string& device_json, int capability);

}  // namespace chimera::cuda
