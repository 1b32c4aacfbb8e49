#include "chimera/runtime/buffer_pool.h"

#include <algorithm>

namespace chimera {

using schedule::Instr;
using schedule::Message;

BufferPool::Slots(Device& device, Index boundaries, Index edge_bytes, Index activations,
                  Index full_bytes, int span)
    : span_(span),
      edges_(device, checked_mul(boundaries, edge_bytes)),
      fulls_(device, checked_mul(activations, full_bytes)),
      leases_(static_cast<std::size_t>(boundaries)) {
  for (Index i = 0; i < boundaries; ++i) {
    Lease& lease = leases_[static_cast<std::size_t>(i)];
    lease.boundary = edges_.data() + i * edge_bytes;
    lease.requests.assign(4 * static_cast<std::size_t>(span), 0);
  }
  for (Index i = activations; i-- > 0;) free_fulls_.push_back(fulls_.data() + i * full_bytes);
}

BufferPool::Lease& BufferPool::find(const Instr& in, Index step) {
  const auto it = std::ranges::find_if(leases_, [&](const Lease& t) {
    return t.stage == in.stage && t.block == in.micro / span_ && t.step == step;
  });
  ENSURE(it != leases_.end(), to_string(in), " of step ", step, " has no buffer");
  return *it;
}

BufferPool::Lease& BufferPool::enter(const Instr& in, Index step) {
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
  most_edges_ = std::max(most_edges_, ++edges_in_use_);
  return *free;
}

void BufferPool::acquire_activations(Lease& lease, int count) {
  if (lease.live == 0) {
    ENSURE(!free_fulls_.empty(), "stage ", lease.stage, ", step ", lease.step,
           " finds all buffers in use");
    lease.activations = free_fulls_.back();
    free_fulls_.pop_back();
    most_fulls_ = std::max(most_fulls_, ++fulls_in_use_);
  }
  lease.live += count;
}

void BufferPool::release_activations(Lease& lease, int count) {
  if ((lease.live -= count) > 0) return;
  free_fulls_.push_back(lease.activations);
  lease.activations = nullptr;
  --fulls_in_use_;
}

void BufferPool::leave(Lease& lease) {
  lease.stage = lease.block = -1;
  --edges_in_use_;
}

Communicator::Request& BufferPool::request(Lease& lease, const Instr& in, bool sending) {
  const int kind = (sending ? 2 : 0) + (in.message == Message::Gradient ? 1 : 0);
  return lease.requests[static_cast<std::size_t>(4 * (in.micro % span_) + kind)];
}

}  // namespace chimera
