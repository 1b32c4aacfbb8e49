#pragma once
// The ops on a GPU. Without CUDA in the build another file answers with an error that says so.
#include <string>
#include <vector>

#include "chimera/device/cuda_device.h"
#include "chimera/ops/ops.h"

namespace chimera {

// Who computes what can be computed in two ways.
enum class CudaImplementation {
  Own,       // our kernels
  Library,   // the library, wherever it can
  Autotuned  // whichever a timing of both finds faster, once per shape
};

// Whatever is timed may be chosen otherwise in another run, and with it the last bits differ,
// unless `autotune_cache` names a folder: then later runs choose what the first one chose. Without
// timing every run on a kind of device gives the same bits. Timing waits for the stream; it is done
// where a shape is seen first, unless the stream is being captured, when nothing is timed.
struct CudaOpsSettings {
  // Time what cuBLASLt proposes for a shape and keep the fastest; else its first proposal is taken.
  bool autotune_matmul = false;
  // Products of fp32 matrices round their operands to TF32 (10 bits of mantissa), on tensor cores.
  bool tf32 = false;
  // linear_gelu_forward, linear_gelu_backward and linear_backward_weight as one product with
  // cuBLASLt's epilogue (Library), or as a product and a kernel (Own). Own by default: with 16-bit
  // types an epilogue's GELU is of the sum before it is rounded to `pre`, so that recomputing it
  // from `pre` gives other last bits. And products of 16-bit matrices whose rows do not begin at 16
  // bytes (a vocabulary of 50257): on copies with longer rows (Library), or as they are (Own).
  CudaImplementation epilogues = CudaImplementation::Own;
  // Attention by cuDNN, where there is no dropout, the type has 16 bits and the size of a head is a
  // multiple of 8 up to 128. Own by default, until a measurement says otherwise.
  CudaImplementation attention = CudaImplementation::Own;
  // Folder of the autotuning cache, a JSON file per device and libraries; empty: kept nowhere.
  // Files that are damaged, foreign or of an older format are ignored with a warning and replaced.
  std::string autotune_cache;
};

// Tensors are of `device`, whose stream carries the work: ops return when it is enqueued, in order,
// and only sum_squares waits. Results are the same bits on every run on a kind of device. What
// kernels find wrong (an id outside the vocabulary; it is read as 0) is thrown by the next
// sum_squares or check().
class CudaOps : public Ops {
 public:
  // Waits for the device's stream and throws what its kernels found.
  virtual void check() = 0;
  // What computes and what was chosen until now, a line each, for the log: "attention forward BF16
  // B 8 H 12 T 1024 head 64: cuDNN: cuDNN 0.12 ms, ours 0.31 ms".
  virtual std::vector<std::string> describe() const = 0;
};

// `device` must outlive the ops.
std::unique_ptr<CudaOps> make_cuda_ops(CudaDevice& device, const CudaOpsSettings& settings = {});
// The library behind its matmul, for the manifest: "cuBLASLt 13.1.0".
std::string cuda_matmul_library();

}  // namespace chimera
