#include "transfer_log.h"

#include <algorithm>
#include <utility>

#include "launch.h"

namespace chimera {
namespace {

constexpr std::size_t kSlots = 64;  // to begin with
constexpr std::size_t kNameLength = 96;

}  // namespace

CudaEvent::CudaEvent() {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
}
CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }
void CudaEvent::record(cudaStream_t stream) {
  check_cuda(cudaEventRecord(event_, stream), "recording an event");
}
void CudaEvent::hold(cudaStream_t stream) const {
  check_cuda(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
}
bool CudaEvent::reached() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "asking for an event");
  return true;
}

Index TransferLog::begin(int peer, bool sends, std::byte* data, Index bytes) {
  const std::lock_guard lock(mutex_);
  forget_ended();
  if (next_ - oldest_ == std::ssize(slots_)) {
    std::vector<Transfer> larger(std::max(kSlots, 2 * slots_.size()));
    for (Index n = oldest_; n < next_; ++n)
      larger[static_cast<std::size_t>(n) % larger.size()] = std::move(at(n));
    slots_ = std::move(larger);
    for (Transfer& t : slots_) {
      if (!t.done) t.done = std::make_unique<CudaEvent>();
      t.what.reserve(kNameLength);
    }
  }
  Transfer& t = at(next_);
  t.group = 0;
  t.peer = peer;
  t.sends = sends;
  t.enqueued = t.waited_for = false;
  t.data = data;
  t.bytes = bytes;
  ++open_;
  return next_++;
}

Transfer& TransferLog::open(Index number, int rank) {
  ENSURE(number >= oldest_ && number < next_ && !at(number).waited_for, "worker ", rank,
         " waits for request ", number, ", which has ended or is not its own");
  return at(number);
}

void TransferLog::enqueued(Index number, Index group) {
  const std::lock_guard lock(mutex_);
  at(number).enqueued = true;
  at(number).group = group;
}

void TransferLog::waited_for(Index number, std::string_view what) {
  const std::lock_guard lock(mutex_);
  at(number).waited_for = true;
  at(number).what.assign(what);
  --open_;
}

void TransferLog::forget_ended() {
  while (oldest_ < next_ && ended(at(oldest_))) ++oldest_;
}

TransferLog::Unfinished TransferLog::look() {
  const std::lock_guard lock(mutex_);
  Index first = oldest_;
  while (first < next_ && (!at(first).waited_for || ended(at(first)))) ++first;
  if (first == next_) return {};
  std::vector<int> peers;
  for (Index n = first; n < next_; ++n) {
    const Transfer& t = at(n);
    if (n != first && t.group != at(first).group) continue;
    if (std::ranges::find(peers, t.peer) == peers.end()) peers.push_back(t.peer);
  }
  std::ranges::sort(peers);
  Unfinished found{first, concat("worker ", peers[0]), at(first).what};
  for (std::size_t i = 1; i < peers.size(); ++i)
    found.peers += concat(i + 1 < peers.size() ? ", " : " or ", peers[i]);
  return found;
}

}  // namespace chimera
