#pragma once
// Small tables that the host writes and kernels of one stream read.
#include <array>
#include <span>

#include "chimera/base/types.h"
#include "port.h"

namespace chimera::cuda {

// Page-locked memory for several uploads in turn, each with its place on the device: the host waits
// only where it is that many uploads ahead of the stream. A place grows when asked for more.
// Not for work that is captured: a graph would read a table that the next upload overwrites.
class Uploads {
 public:
  explicit Uploads(cudaStream_t stream) : stream_(stream) {}
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // A copy on the device, in the stream's order, valid until kPlaces more uploads.
  template <class T>
  const T* upload(std::span<const T> table) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<const T*>(bytes(std::as_bytes(table)));
  }

 private:
  static constexpr std::size_t kPlaces = 8;
  struct Place {
    void *host = nullptr, *device = nullptr;
    std::size_t size = 0;
    cudaEvent_t copied = nullptr;
  };
  const void* bytes(std::span<const std::byte> table);
  void grow(Place& place, std::size_t size);
  static void release(Place& place);

  cudaStream_t stream_;
  std::array<Place, kPlaces> places_;
  std::size_t next_ = 0;
};

}  // namespace chimera::cuda
