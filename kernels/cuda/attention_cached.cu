// New keys and values of a sequence into its cache.
#include "kernels.h"
#include "packed.h"

namespace chimera::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    store_cached_kernel(T* keys, T* values, const T* qkv, Index first, Index R, Index C) {
  const Index i = thread_index();
  if (i >= R * C) return;
  const Index r = i / C, c = i % C;
  keys[(first + r) * C + c] = qkv[(r * 3 + 1) * C + c];
  values[(first + r) * C + c] = qkv[(r * 3 + 2) * C + c];
}

}  // namespace

template <class T>
void store_cached(T* keys, T* values, const T* qkv, Index first, Index R, Index C,
                  cudaStream_t stream) {
  if (R == 0 || C == 0) return;
  launch(store_cached_kernel<T>, blocks_for(R * C), kThreads, 0, stream, keys, values, qkv, first,
         R, C);
}

#define CHIMERA_ATTENTION_CACHED(T) \
  template void store_cached<T>(T*, T*, const T*, Index, Index, Index, cudaStream_t);
CHIMERA_ATTENTION_CACHED(float)
CHIMERA_ATTENTION_CACHED(__nv_bfloat16)
CHIMERA_ATTENTION_CACHED(__half)

}  // namespace chimera::cuda
