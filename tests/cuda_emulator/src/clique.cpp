#include "clique.h"

#include <algorithm>
#include <cstring>

#include "machine.h"

namespace emulator {

using chimera::concat;

namespace {

const char* name(CallKind kind) {
  static constexpr const char* names[] = {"AllReduce", "Reduce", "ReduceScatter", "AllGather",
                                          "Broadcast", "Send",   "Recv"};
  return names[static_cast<int>(kind)];
}
const char* name(ncclDataType_t type) {
  static constexpr const char* names[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                          "uint64", "fp16",  "fp32",  "fp64",   "bf16"};
  return names[type];
}
const char* name(ncclRedOp_t op) {
  static constexpr const char* names[] = {"sum", "product", "maximum", "minimum", "average"};
  return names[op];
}

}  // namespace

std::size_t element_bytes(ncclDataType_t type) {
  static constexpr std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

std::string to_string(const NcclCall& c) {
  std::string text = concat("nccl", name(c.kind), " of ", c.count, " ", name(c.type));
  if (c.kind == CallKind::AllReduce || c.kind == CallKind::ReduceScatter ||
      c.kind == CallKind::Reduce)
    text += concat(" (", name(c.op), ")");
  if (c.kind == CallKind::Broadcast || c.kind == CallKind::Reduce)
    text += concat(", root ", c.root);
  if (c.kind == CallKind::Send) text += concat(" to rank ", c.root);
  if (c.kind == CallKind::Receive) text += concat(" from rank ", c.root);
  return text;
}

std::size_t bytes_read(const NcclCall& c, int ranks) {
  const std::size_t bytes = c.count * element_bytes(c.type);
  if (c.kind == CallKind::Receive) return 0;
  return c.kind == CallKind::ReduceScatter ? bytes * static_cast<std::size_t>(ranks) : bytes;
}
std::size_t bytes_written(const NcclCall& c, int ranks) {
  const std::size_t bytes = c.count * element_bytes(c.type);
  if (c.kind == CallKind::Send) return 0;
  return c.kind == CallKind::AllGather ? bytes * static_cast<std::size_t>(ranks) : bytes;
}

void Clique::join(int rank, int device) {
  Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  if (mine.device >= 0)
    refuse(static_cast<cudaError_t>(ncclInvalidUsage), "ncclCommInitRank: rank ", rank,
           " was there before");
  for (int r = 0; r < size(); ++r)
    if (ranks_[static_cast<std::size_t>(r)].device == device)
      refuse(static_cast<cudaError_t>(ncclInvalidUsage), "ncclCommInitRank: ranks ", r, " and ",
             rank, " are both on device ", device, "; NCCL takes one rank per device");
  mine.device = device;
  ++joined_;
}

bool Clique::any_aborted() const {
  return std::ranges::any_of(ranks_, [](const Rank& r) { return r.aborted; });
}

void Clique::abort(int rank) {
  Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  mine.aborted = true;
  mine.for_calls([](NcclCall& call) { call.done = true; });
}

bool Clique::unfinished(int rank) const {
  bool found = false;
  ranks_[static_cast<std::size_t>(rank)].for_calls([&](const NcclCall& c) { found |= !c.done; });
  return found;
}

std::optional<std::string> Clique::issue(int rank, const std::shared_ptr<NcclCall>& call) {
  Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  if (!call->collective()) {
    (call->kind == CallKind::Send ? mine.sends : mine.receives)[call->root].push_back(call);
    return std::nullopt;
  }
  const std::size_t number = mine.collectives.size();
  mine.collectives.push_back(call);
  for (int r = 0; r < size(); ++r) {
    const auto& theirs = ranks_[static_cast<std::size_t>(r)].collectives;
    if (theirs.size() <= number || to_string(*theirs[number]) == to_string(*call)) continue;
    return concat("collective ", number + 1, " of the communicator is ", to_string(*call),
                  " on rank ", rank, " and ", to_string(*theirs[number]), " on rank ", r,
                  "; all ranks must call the same, in the same order");
  }
  return std::nullopt;
}

std::optional<std::string> Clique::progress_messages() {
  for (int source = 0; source < size(); ++source) {
    Rank& from = ranks_[static_cast<std::size_t>(source)];
    for (auto& [peer, sends] : from.sends) {
      Rank& to = ranks_[static_cast<std::size_t>(peer)];
      auto& receives = to.receives[source];
      std::size_t &sent = from.sent[peer], &received = to.received[source];
      while (sent < sends.size() && received < receives.size()) {
        NcclCall &send = *sends[sent], &receive = *receives[received];
        if (!send.started || !receive.started) break;
        if (send.count != receive.count || send.type != receive.type)
          return concat(to_string(send), " by rank ", source, " meets ", to_string(receive),
                        " by rank ", peer, "; counts and types must agree");
        if (send.count > 0) std::memcpy(receive.to, send.from, bytes_read(send, size()));
        send.done = receive.done = true;
        ++sent;
        ++received;
      }
    }
  }
  return std::nullopt;
}

void Clique::carry_out(std::size_t number) {
  std::vector<NcclCall*> calls;
  for (Rank& rank : ranks_) calls.push_back(rank.collectives[number].get());
  carry_out_collective(calls);
  for (NcclCall* call : calls) call->done = true;
}

std::optional<std::string> Clique::progress() {
  if (any_aborted()) return std::nullopt;
  const auto started = [&](const Rank& r) {
    return r.collectives.size() > collectives_done_ && r.collectives[collectives_done_]->started;
  };
  while (std::ranges::all_of(ranks_, started)) carry_out(collectives_done_++);
  return progress_messages();
}

void Clique::blockers(int rank, const NcclCall& call, std::vector<Stream*>& out) const {
  const std::size_t before = out.size();
  const auto add = [&](const NcclCall& other) {
    if (!other.started) out.push_back(other.stream);
  };
  if (call.collective()) {
    const auto& mine = ranks_[static_cast<std::size_t>(rank)].collectives;
    const auto number = static_cast<std::size_t>(
        std::ranges::find_if(mine, [&](const auto& c) { return c.get() == &call; }) - mine.begin());
    // Earlier collectives of this rank come first, then the same of the others.
    for (std::size_t i = collectives_done_; i < number; ++i) add(*mine[i]);
    for (const Rank& other : ranks_) {
      if (other.collectives.size() <= number) {
        out.resize(before);
        return;
      }
      add(*other.collectives[number]);
    }
    return;
  }
  const bool send = call.kind == CallKind::Send;
  const auto& mine = ranks_[static_cast<std::size_t>(rank)];
  const auto& list = (send ? mine.sends : mine.receives).at(call.root);
  const auto number = static_cast<std::size_t>(
      std::ranges::find_if(list, [&](const auto& c) { return c.get() == &call; }) - list.begin());
  const auto& peer = ranks_[static_cast<std::size_t>(call.root)];
  const auto& theirs = send ? peer.receives : peer.sends;
  const auto found = theirs.find(rank);
  if (found == theirs.end() || found->second.size() <= number) return;
  for (std::size_t i = 0; i < number; ++i) add(*list[i]);
  for (std::size_t i = 0; i <= number; ++i) add(*found->second[i]);
}

}  // namespace emulator
