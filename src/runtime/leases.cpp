#include "chimera/runtime/leases.h"

#include <algorithm>

namespace chimera {

using schedule::Instr;
using schedule::Message;

Slots::Slots(Device& device, Index edges, Index edge_bytes, Index fulls, Index full_bytes, int span)
    : span_(span),
      edges_(device, checked_mul(edges, edge_bytes)),
      fulls_(device, checked_mul(fulls, full_bytes)),
      leases_(static_cast<std::size_t>(edges)) {
  for (Index i = 0; i < edges; ++i) {
    Lease& lease = leases_[static_cast<std::size_t>(i)];
    lease.edge = edges_.data() + i * edge_bytes;
    lease.requests.assign(4 * static_cast<std::size_t>(span), 0);
  }
  for (Index i = fulls; i-- > 0;) free_fulls_.push_back(fulls_.data() + i * full_bytes);
}

Slots::Lease& Slots::find(const Instr& in, Index step) {
  const auto it = std::ranges::find_if(leases_, [&](const Lease& t) {
    return t.stage == in.stage && t.block == in.micro / span_ && t.step == step;
  });
  ENSURE(it != leases_.end(), to_string(in), " of step ", step, " has no slot");
  return *it;
}

Slots::Lease& Slots::enter(const Instr& in, Index step) {
  Lease* free = nullptr;
  for (Lease& t : leases_) {
    if (t.stage == in.stage && t.block == in.micro / span_ && t.step == step) return t;
    if (t.stage < 0 && free == nullptr) free = &t;
  }
  ENSURE(free != nullptr, to_string(in), " of step ", step, " finds all ", leases_.size(),
         " edge slots in use");
  free->stage = in.stage;
  free->block = in.micro / span_;
  free->step = step;
  most_edges_ = std::max(most_edges_, ++edges_in_use_);
  return *free;
}

void Slots::take_full(Lease& lease, int count) {
  if (lease.live == 0) {
    ENSURE(!free_fulls_.empty(), "stage ", lease.stage, ", step ", lease.step,
           " finds all slots in use");
    lease.full = free_fulls_.back();
    free_fulls_.pop_back();
    most_fulls_ = std::max(most_fulls_, ++fulls_in_use_);
  }
  lease.live += count;
}

void Slots::give_full(Lease& lease, int count) {
  if ((lease.live -= count) > 0) return;
  free_fulls_.push_back(lease.full);
  lease.full = nullptr;
  --fulls_in_use_;
}

void Slots::leave(Lease& lease) {
  lease.stage = lease.block = -1;
  --edges_in_use_;
}

Communicator::Request& Slots::request(Lease& lease, const Instr& in, bool sending) {
  const int kind = (sending ? 2 : 0) + (in.message == Message::Gradient ? 1 : 0);
  return lease.requests[static_cast<std::size_t>(4 * (in.micro % span_) + kind)];
}

}  // namespace chimera
