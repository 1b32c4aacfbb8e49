// NCCL: communicators, groups, and calls as operations of streams.
#include <cstring>

#include "clique.h"
#include "machine.h"
#include "race.h"

using namespace emulator;
using chimera::concat;

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank, device;
};

namespace {

[[noreturn]] void nccl_refuse(ncclResult_t result, const std::string& text) {
  refuse(static_cast<cudaError_t>(result), "NCCL: ", text);
}

template <class Body>
ncclResult_t nccl_call(const Body& body) {
  ncclResult_t result = ncclSuccess;
  const cudaError_t error = api_call([&](Machine& m, Machine::Lock& lock) {
    try {
      body(m, lock);
    } catch (const Refusal& refusal) {
      m.report(refusal.text);
      result = static_cast<ncclResult_t>(refusal.error);
    }
    return cudaSuccess;
  });
  return error == cudaSuccess ? result : ncclUnhandledCudaError;
}

// What one rank has put into one group, or one call by itself: in flight together, done when all
// are.
class NcclOperation final : public Operation {
 public:
  NcclOperation(std::shared_ptr<Clique> clique, int rank,
                std::vector<std::shared_ptr<NcclCall>> calls)
      : clique_(std::move(clique)), rank_(rank), calls_(std::move(calls)) {}

  bool finished() const override {
    for (const auto& call : calls_)
      if (!call->done) return false;
    return true;
  }
  bool ready() const override { return !started_ || finished(); }
  void blockers(std::vector<Stream*>& out) const override {
    for (const auto& call : calls_)
      if (!call->done) clique_->blockers(rank_, *call, out);
  }
  bool waits_for_host() const override {
    if (clique_->any_aborted()) return true;  // until this rank is aborted, too
    for (const auto& call : calls_) {
      std::vector<Stream*> out;
      if (!call->done) clique_->blockers(rank_, *call, out);
      if (!call->done && out.empty()) return true;
    }
    return false;
  }
  std::optional<std::string> run(Machine& m, Stream& stream) override {
    if (!started_) {
      started_ = true;
      for (const auto& call : calls_) {
        call->started = true;
        race::operation_reads(call->from, bytes_read(*call, clique_->size()));
        race::operation_writes(call->to, bytes_written(*call, clique_->size()));
      }
      race::release(clique_.get());
      m.memory.open(stream.device, ~std::uint64_t{0});
      if (auto error = clique_->progress()) return error;
    }
    if (finished()) race::acquire(clique_.get());  // other ranks' data are here
    return std::nullopt;
  }
  std::string what() const override {
    std::string text = to_string(*calls_.front());
    if (calls_.size() > 1) text += concat(" and ", calls_.size() - 1, " more");
    return concat(text, " by rank ", rank_);
  }

 private:
  std::shared_ptr<Clique> clique_;
  int rank_;
  bool started_ = false;
  std::vector<std::shared_ptr<NcclCall>> calls_;
};

struct Pending {
  ncclComm* comm;
  Stream* stream;
  NcclCall call;
};
struct Group {
  int depth = 0;
  std::vector<Pending> calls;
  std::vector<std::shared_ptr<Clique>> joins;
};
thread_local Group group;

ncclComm& checked(const Machine& m, ncclComm_t comm) {
  if (!m.communicators.contains(comm))
    nccl_refuse(ncclInvalidArgument, "a communicator that does not exist or has been destroyed");
  return *comm;
}

void check_buffer(Machine& m, const ncclComm& comm, const void* data, std::size_t bytes,
                  const NcclCall& call, const char* role) {
  if (bytes == 0) return;
  const auto* p = static_cast<const char*>(data);
  const Allocation* a = m.memory.find(data);
  if (a == nullptr || !(a->live || a->pending) || a->device != comm.device || p < a->address ||
      p + bytes > a->address + a->bytes)
    nccl_refuse(ncclInvalidArgument, concat(to_string(call), ": its ", role, ", ", bytes,
                                            " bytes, starts at ", describe_address(m.memory, data),
                                            "; rank ", comm.rank, " is on device ", comm.device));
}

// In place is allowed where NCCL says so: the same start, or the rank's own part.
void check_overlap(const ncclComm& comm, const NcclCall& call) {
  const int n = comm.clique->size();
  const std::size_t read = bytes_read(call, n), written = bytes_written(call, n);
  if (read == 0 || written == 0) return;
  const auto *from = static_cast<const char*>(call.from), *to = static_cast<const char*>(call.to);
  if (from + read <= to || to + written <= from) return;
  const std::size_t part = std::min(read, written) * static_cast<std::size_t>(comm.rank);
  const char* allowed_to = call.kind == CallKind::ReduceScatter ? from + part : from;
  if (call.kind == CallKind::AllGather ? to + part == from : to == allowed_to) return;
  nccl_refuse(
      ncclInvalidArgument,
      concat(to_string(call), ": source and destination overlap, not in NCCL's in-place way"));
}

void issue(Machine& m, std::vector<Pending>& calls) {
  // One operation per communicator and stream, in the order of the first call.
  while (!calls.empty()) {
    ncclComm* comm = calls.front().comm;
    Stream* stream = calls.front().stream;
    std::vector<std::shared_ptr<NcclCall>> mine;
    std::optional<std::string> contradiction;
    for (const Pending& p : calls) {
      if (p.comm != comm || p.stream != stream) continue;
      mine.push_back(std::make_shared<NcclCall>(p.call));
      mine.back()->stream = stream;
      if (comm->clique->aborted(comm->rank)) mine.back()->done = true;
      if (!contradiction) contradiction = comm->clique->issue(comm->rank, mine.back());
    }
    std::erase_if(calls, [&](const Pending& p) { return p.comm == comm && p.stream == stream; });
    if (contradiction) {
      m.fail("NCCL: " + *contradiction);
      nccl_refuse(ncclInvalidUsage, *contradiction);
    }
    m.enqueue(*stream, std::make_unique<NcclOperation>(comm->clique, comm->rank, std::move(mine)));
  }
}

ncclResult_t add(const NcclCall& call, ncclComm_t handle, cudaStream_t stream) {
  return nccl_call([&](Machine& m, Machine::Lock&) {
    ncclComm& comm = checked(m, handle);
    Stream& s = m.stream(stream);
    if (s.device != comm.device)
      nccl_refuse(ncclInvalidUsage, concat("a communicator of device ", comm.device,
                                           " with a stream of device ", s.device));
    if (call.root < 0 || call.root >= comm.clique->size())
      nccl_refuse(ncclInvalidArgument,
                  concat(to_string(call), " among ", comm.clique->size(), " ranks"));
    check_buffer(m, comm, call.from, bytes_read(call, comm.clique->size()), call, "source");
    check_buffer(m, comm, call.to, bytes_written(call, comm.clique->size()), call, "destination");
    check_overlap(comm, call);
    group.calls.push_back({&comm, &s, call});
    if (group.depth == 0) issue(m, group.calls);
  });
}

void wait_for_all(Machine& m, Machine::Lock& lock, const Clique& clique) {
  if (m.run_until(lock, [&] { return clique.complete(); }, {}) != cudaSuccess)
    nccl_refuse(ncclSystemError, "not all ranks came to ncclCommInitRank");
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call([&](Machine& m, auto&) {
    *id = {};
    const std::uint64_t number = ++m.nccl_ids;
    std::memcpy(id->internal, &number, sizeof number);
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return nccl_call([&](Machine& m, Machine::Lock& lock) {
    if (ranks < 1 || rank < 0 || rank >= ranks)
      nccl_refuse(ncclInvalidArgument, concat("rank ", rank, " of ", ranks));
    std::uint64_t number = 0;
    std::memcpy(&number, id.internal, sizeof number);
    if (number == 0 || number > m.nccl_ids)
      nccl_refuse(ncclInvalidArgument,
                  "an unknown unique id; the emulator's NCCL connects threads of one process");
    std::shared_ptr<Clique>& clique = m.cliques[number];
    if (clique == nullptr) clique = std::make_shared<Clique>(ranks);
    if (clique->size() != ranks)
      nccl_refuse(ncclInvalidArgument, concat("rank ", rank, " says there are ", ranks,
                                              " ranks, another said ", clique->size()));
    clique->join(rank, current_device());
    const auto made = std::make_shared<ncclComm>(ncclComm{clique, rank, current_device()});
    *comm = made.get();
    m.communicators[*comm] = made;
    m.changed.notify_all();
    if (group.depth > 0)
      group.joins.push_back(clique);
    else
      wait_for_all(m, lock, *clique);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return nccl_call([&](Machine& m, auto&) { checked(m, comm); });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return nccl_call([&](Machine& m, auto&) {
    checked(m, comm);
    if (comm->clique->unfinished(comm->rank) && !m.failed)
      m.report(
          concat("NCCL: rank ", comm->rank, " destroys its communicator with calls under way"));
    m.communicators.erase(comm);
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return nccl_call([&](Machine& m, auto&) {
    checked(m, comm).clique->abort(comm->rank);
    m.communicators.erase(comm);
    m.changed.notify_all();
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return nccl_call([&](Machine& m, auto&) {
    const ncclComm& c = checked(m, comm);
    *error = m.failed ? ncclInternalError : c.clique->any_aborted() ? ncclRemoteError : ncclSuccess;
  });
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return nccl_call([&](Machine& m, auto&) { *count = checked(m, comm).clique->size(); });
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return nccl_call([&](Machine& m, auto&) { *rank = checked(m, comm).rank; });
}
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return nccl_call([&](Machine& m, auto&) { *device = checked(m, comm).device; });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  text = last_report();
  return text.c_str();
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({CallKind::AllReduce, send, receive, count, type, op}, comm, stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add({CallKind::Reduce, send, receive, count, type, op, root}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add({CallKind::ReduceScatter, send, receive, count, type, op}, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({CallKind::AllGather, send, receive, count, type}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add({CallKind::Broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({CallKind::Send, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({CallKind::Receive, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return nccl_call([&](Machine& m, Machine::Lock& lock) {
    if (group.depth == 0) nccl_refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0) return;
    const auto joins = std::exchange(group.joins, {});
    for (const auto& clique : joins) wait_for_all(m, lock, *clique);
    issue(m, group.calls);
  });
}
