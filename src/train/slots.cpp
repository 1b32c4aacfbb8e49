#include "chimera/train/slots.h"

#include <algorithm>

namespace chimera::train {

using schedule::Instr;
using schedule::Message;

Slots::Slots(Device& device, Index edges, Index edge_bytes, Index fulls, Index full_bytes, int span)
    : span_(span),
      edges_(device, checked_mul(edges, edge_bytes)),
      fulls_(device, checked_mul(fulls, full_bytes)),
      tenants_(static_cast<std::size_t>(edges)) {
  for (Index i = 0; i < edges; ++i) {
    Tenant& tenant = tenants_[static_cast<std::size_t>(i)];
    tenant.edge = edges_.data() + i * edge_bytes;
    tenant.requests.assign(4 * static_cast<std::size_t>(span), 0);
  }
  for (Index i = fulls; i-- > 0;) free_fulls_.push_back(fulls_.data() + i * full_bytes);
}

Slots::Tenant& Slots::find(const Instr& in, Index step) {
  const auto it = std::ranges::find_if(tenants_, [&](const Tenant& t) {
    return t.stage == in.stage && t.block == in.micro / span_ && t.step == step;
  });
  ENSURE(it != tenants_.end(), to_string(in), " of step ", step, " has no slot");
  return *it;
}

Slots::Tenant& Slots::enter(const Instr& in, Index step) {
  Tenant* free = nullptr;
  for (Tenant& t : tenants_) {
    if (t.stage == in.stage && t.block == in.micro / span_ && t.step == step) return t;
    if (t.stage < 0 && free == nullptr) free = &t;
  }
  ENSURE(free != nullptr, to_string(in), " of step ", step, " finds all ", tenants_.size(),
         " edge slots in use");
  free->stage = in.stage;
  free->block = in.micro / span_;
  free->step = step;
  most_edges_ = std::max(most_edges_, ++edges_in_use_);
  return *free;
}

void Slots::take_full(Tenant& tenant, int count) {
  if (tenant.live == 0) {
    ENSURE(!free_fulls_.empty(), "stage ", tenant.stage, ", step ", tenant.step,
           " finds all slots in use");
    tenant.full = free_fulls_.back();
    free_fulls_.pop_back();
    most_fulls_ = std::max(most_fulls_, ++fulls_in_use_);
  }
  tenant.live += count;
}

void Slots::give_full(Tenant& tenant, int count) {
  if ((tenant.live -= count) > 0) return;
  free_fulls_.push_back(tenant.full);
  tenant.full = nullptr;
  --fulls_in_use_;
}

void Slots::leave(Tenant& tenant) {
  tenant.stage = tenant.block = -1;
  --edges_in_use_;
}

Communicator::Request& Slots::request(Tenant& tenant, const Instr& in, bool sending) {
  const int kind = (sending ? 2 : 0) + (in.message == Message::Gradient ? 1 : 0);
  return tenant.requests[static_cast<std::size_t>(4 * (in.micro % span_) + kind)];
}

}  // namespace chimera::train
