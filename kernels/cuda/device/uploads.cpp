#include "uploads.h"

#include <cstring>

namespace chimera::cuda {

Uploads::~Uploads() {
  cudaStreamSynchronize(stream_);
  for (Place& place : places_) release(place);
}

void Uploads::release(Place& place) {
  if (place.host != nullptr) cudaFreeHost(place.host);
  if (place.device != nullptr) cudaFree(place.device);
  if (place.copied != nullptr) cudaEventDestroy(place.copied);
  place = {};
}

void Uploads::grow(Place& place, std::size_t size) {
  check_cuda(cudaStreamSynchronize(stream_), "waiting to grow a table for the GPU");
  release(place);
  check_cuda(cudaHostAlloc(&place.host, size, cudaHostAllocDefault),
             "allocating page-locked memory for a table");
  check_cuda(cudaMalloc(&place.device, size), "allocating a table on the GPU");
  check_cuda(cudaEventCreateWithFlags(&place.copied, cudaEventDisableTiming), "making an event");
  place.size = size;
}

const void* Uploads::bytes(std::span<const std::byte> table) {
  Place& place = places_[next_];
  next_ = (next_ + 1) % kPlaces;
  if (table.size() > place.size)
    grow(place, table.size() + table.size() / 2);
  else if (place.copied != nullptr)
    check_cuda(cudaEventSynchronize(place.copied), "waiting for an earlier table's copy");
  if (table.empty()) return place.device;
  std::memcpy(place.host, table.data(), table.size());
  check_cuda(
      cudaMemcpyAsync(place.device, place.host, table.size(), cudaMemcpyHostToDevice, stream_),
      "copying a table to the GPU");
  check_cuda(cudaEventRecord(place.copied, stream_), "recording a table's copy");
  return place.device;
}

}  // namespace chimera::cuda
