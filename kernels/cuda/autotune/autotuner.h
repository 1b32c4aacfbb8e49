#pragma once
// Autotuning: how long work takes on a stream, and choosing by it.
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "autotune_cache.h"
#include "chimera/ops/cuda_ops.h"
#include "device/port.h"

namespace chimera::cuda {

// Enqueues the work once and leaves what it leaves every time; false, and nothing done, where it is
// not possible.
using Work = std::function<bool()>;

// Milliseconds of one run, the least of several; nullopt where it is not possible. Waits.
std::optional<double> time_on(cudaStream_t stream, const Work& work);
// Whether `stream` is being captured: nothing may be timed or allocated.
bool capturing(cudaStream_t stream);
// Position of the fastest; one that comes later must be 2 % faster, so that noise rarely decides.
// nullopt when none is possible.
struct Fastest {
  std::size_t index;
  double milliseconds;
};
std::optional<Fastest> fastest(const std::vector<std::optional<double>>& times);

// The current device, the driver and `library`, for what is kept of timings.
AutotuneScope autotune_scope(const std::string& library);

// Device memory for the results of what is timed, where the real ones may not be written twice.
// Null where there is not enough.
class TrialMemory {
 public:
  explicit TrialMemory(Index bytes);
  ~TrialMemory();
  TrialMemory(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

// What can be computed by a library in one go or by kernels of ours.
enum class TunedOp {
  GeluForward,
  GeluBackward,
  BackwardWeight,
  PaddedMatmul,
  AttentionForward,
  AttentionBackward
};
struct TunedCase {
  TunedOp op;
  DType type;
  Index a, b, c, d;  // R, K, N of a product, which way it is; B, H, T, size of a head
  auto operator<=>(const TunedCase&) const = default;
};
std::string to_string(const TunedCase& c);

// Chooses once per case; the same for the life of the object.
class Autotuner {
 public:
  Autotuner(cudaStream_t stream, CudaImplementation products, CudaImplementation attention,
            AutotuneCache& cache)
      : stream_(stream), products_(products), attention_(attention), cache_(&cache) {}

  // Whether the library's way is taken; nothing when that is yet to be timed.
  std::optional<bool> decided(const TunedCase& c) const {
    const CudaImplementation rule = c.op < TunedOp::AttentionForward ? products_ : attention_;
    if (rule != CudaImplementation::Autotuned) return rule == CudaImplementation::Library;
    const auto known = known_.find(c);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  // The same, running both when they are to be timed. While the stream is captured they are not,
  // and ours is taken this once.
  template <class Library, class Ours>
  bool library_wins(const TunedCase& c, const Library& library, const Ours& ours) {
    if (const auto known = decided(c)) return *known;
    return decide(c, std::ref(library), std::ref(ours));
  }
  // "attention forward BF16 B 8 H 12 T 1024 head 64: library 0.12 ms, ours 0.31 ms"
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  bool decide(const TunedCase& c, const Work& library, const Work& ours);

  cudaStream_t stream_;
  CudaImplementation products_, attention_;
  AutotuneCache* cache_;
  std::map<TunedCase, bool> known_;
  std::vector<std::string> lines_;
};

}  // namespace chimera::cuda
