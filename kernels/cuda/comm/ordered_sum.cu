// The sum of contributions in their order. Specification: src/comm/ordered_sum.cpp.
#include "ordered_sum.h"

#include <algorithm>

#include "ops/packed.h"

namespace chimera::cuda {
namespace {

constexpr int kSources = 64;  // of one launch: their addresses are passed by value
struct Sources {
  const float* at[kSources];
  int count;
};

// A pack per thread; all sources are read before the result, which may be one of them, is written.
__global__ void __launch_bounds__(kThreads)
    ordered_sum_kernel(float* result, Sources sources, Index n, bool wide) {
  constexpr int W = kPack<float>;
  const Index i = thread_index() * W;
  if (i >= n) return;
  const Extent extent = extent_of(n - i, wide);
  float sum[W], next[W];
  load(sum, sources.at[0] + i, extent);
  for (int s = 1; s < sources.count; ++s) {
    load(next, sources.at[s] + i, extent);
#pragma unroll
    for (int k = 0; k < W; ++k) sum[k] += next[k];
  }
  store(result + i, sum, extent);
}

}  // namespace

// Several launches where the sources are many: all but the last leave what they have summed in
// `spare`, which the first has read.
void ordered_sum(float* result, std::span<const float* const> sources, float* spare, Index n,
                 cudaStream_t stream) {
  ENSURE(!sources.empty(), "a sum of no contributions");
  if (n == 0) return;
  const unsigned blocks = blocks_for(ceil_div<Index>(n, kPack<float>));
  const float* before = nullptr;
  for (std::size_t done = 0; done < sources.size();) {
    Sources some{};
    bool wide = true;
    const auto take = [&](const float* p) {
      some.at[some.count++] = p;
      wide = wide && aligned(p);
    };
    if (before != nullptr) take(before);
    while (done < sources.size() && some.count < kSources) take(sources[done++]);
    float* to = result;
    if (done < sources.size()) {
      const auto left = sources.subspan(done);
      ENSURE(spare != nullptr && std::ranges::find(left, spare) == left.end(), "a sum of ",
             sources.size(), " contributions, of which the first ", done,
             " are all of one worker: nothing can hold what is summed meanwhile");
      to = spare;
    }
    launch(ordered_sum_kernel, blocks, kThreads, 0, stream, to, some, n, wide && aligned(to));
    before = to;
  }
}

}  // namespace chimera::cuda
