#include "chimera/runtime/buffer_pool.h"

#include <algorithm>

namespace chimera {

using schedule::Instr;
using schedule::Message;

BufferPool::BufferPool(Device& device, Size boundary, Size activations, int span)
    : span_(span),
      boundary_(device, checked_mul(boundary.count, boundary.bytes)),
      activations_(device, checked_mul(activations.count, activations.bytes)),
      leases_(static_cast<std::size_t>(boundary.count)) {
  for (Index i = 0; i < boundary.count; ++i) {
    Lease& lease = leases_[static_cast<std::size_t>(i)];
    lease.boundary = boundary_.data() + i * boundary.bytes;
    lease.requests.assign(4 * static_cast<std::size_t>(span), 0);
  }
  for (Index i = activations.count; i-- > 0;)
    free_activations_.push_back(activations_.data() + i * activations.bytes);
}

BufferPool::Lease& BufferPool::find(const Instr& in, Index step) {
  const auto it = std::ranges::find_if(leases_, [&](const Lease& t) {
    return t.stage == in.stage && t.block == in.micro / span_ && t.step == step;
  });
  ENSURE(it != leases_.end(), to_string(in), " of step ", step, " has no buffer");
  return *it;
}

BufferPool::Lease& BufferPool::acquire(const Instr& in, Index step) {
  Lease* free = nullptr;
  for (Lease& t : leases_) {
    if (t.stage == in.stage && t.block == in.micro / span_ && t.step == step) return t;
    if (t.stage < 0 && free == nullptr) free = &t;
  }
  ENSURE(free != nullptr, to_string(in), " of step ", step, " finds all ", leases_.size(),
         " boundary buffers in use");
  free->stage = in.stage;
  free->block = in.micro / span_;
  free->step = step;
  most_boundary_ = std::max(most_boundary_, ++boundary_in_use_);
  return *free;
}

void BufferPool::acquire_activations(Lease& lease, int count) {
  if (lease.live == 0) {
    ENSURE(!free_activations_.empty(), "stage ", lease.stage, ", step ", lease.step,
           " finds all activation buffers in use");
    lease.activations = free_activations_.back();
    free_activations_.pop_back();
    most_activations_ = std::max(most_activations_, ++activations_in_use_);
  }
  lease.live += count;
}

void BufferPool::release_activations(Lease& lease, int count) {
  if ((lease.live -= count) > 0) return;
  free_activations_.push_back(lease.activations);
  lease.activations = nullptr;
  --activations_in_use_;
}

void BufferPool::release(Lease& lease) {
  lease.stage = lease.block = -1;
  --boundary_in_use_;
}

Communicator::Request& BufferPool::request(Lease& lease, const Instr& in, bool sending) {
  const int kind = (sending ? 2 : 0) + (in.message == Message::Gradient ? 1 : 0);
  return lease.requests[static_cast<std::size_t>(4 * (in.micro % span_) + kind)];
}

}  // namespace chimera
