#include "pinned_pool.h"

#include <algorithm>

#include "back_off.h"
#include "launch.h"

namespace chimera {
namespace {

constexpr Index kGranule = 4096;

}  // namespace

PinnedPool::~PinnedPool() {
  for (const auto& pinned : all_) cudaFreeHost(pinned->memory);
}

Pinned* PinnedPool::take(Index bytes) {
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const Index size = (*it)->bytes;
    if (size >= bytes && size / 2 <= std::max(bytes, kGranule) &&
        (best == idle_.end() || size < (*best)->bytes))
      best = it;
  }
  if (best != idle_.end()) {
    Pinned* const pinned = *best;
    idle_.erase(best);
    for (BackOff back_off; !device_.reached(*pinned->free);) back_off.pause();
    return pinned;
  }
  auto fresh = std::make_unique<Pinned>();
  fresh->bytes = checked_mul(ceil_div(std::max<Index>(bytes, 1), kGranule), kGranule);
  fresh->free = device_.make_event();
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, static_cast<std::size_t>(fresh->bytes));
  ENSURE(status == cudaSuccess, "cannot page-lock ", fresh->bytes,
         " bytes of host memory for messages (", cudaGetErrorString(status),
         "): the host has too little, or a limit forbids it (ulimit -l)");
  fresh->memory = static_cast<std::byte*>(memory);
  all_.push_back(std::move(fresh));
  idle_.reserve(all_.size());
  return all_.back().get();
}

void PinnedPool::give_back(Pinned* pinned, const Stream* read_by) {
  if (pinned == nullptr) return;
  if (read_by != nullptr) device_.record(*pinned->free, *read_by);
  idle_.push_back(pinned);
}

}  // namespace chimera
