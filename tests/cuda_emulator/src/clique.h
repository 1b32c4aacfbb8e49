#pragma once
// The ranks of one NCCL communicator, what each has called, and how calls of different ranks meet.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nccl.h"
#include "stream.h"

namespace emulator {

enum class CallKind { AllReduce, Reduce, ReduceScatter, AllGather, Broadcast, Send, Receive };

struct NcclCall {
  CallKind kind{};
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t op = ncclSum;
  int root = 0;  // or the peer
  // State
  bool started = false;  // its turn in its stream has come
  bool done = false;
  Stream* stream = nullptr;

  bool collective() const { return kind != CallKind::Send && kind != CallKind::Receive; }
};
std::string to_string(const NcclCall& call);
std::size_t element_bytes(ncclDataType_t type);
// Bytes at `from` and at `to`.
std::size_t bytes_read(const NcclCall& call, int ranks);
std::size_t bytes_written(const NcclCall& call, int ranks);

class Clique {
 public:
  explicit Clique(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  bool complete() const { return joined_ == size(); }
  // Throws Refusal when the rank is taken, or its device by another.
  void join(int rank, int device);
  void abort(int rank);
  bool aborted(int rank) const { return ranks_[static_cast<std::size_t>(rank)].aborted; }
  bool any_aborted() const;
  bool unfinished(int rank) const;  // has the rank calls that are not done?

  // Notes a call of `rank`; returns how it contradicts what other ranks have called, if it does.
  std::optional<std::string> issue(int rank, const std::shared_ptr<NcclCall>& call);
  // Carries out what has started on all sides; returns what does not fit together.
  std::optional<std::string> progress();
  // Streams whose operations must go on before `call` of `rank` can; empty where some rank has not
  // called yet.
  void blockers(int rank, const NcclCall& call, std::vector<Stream*>& out) const;

 private:
  using Calls = std::vector<std::shared_ptr<NcclCall>>;
  struct Rank {
    int device = -1;
    bool aborted = false;
    Calls collectives;
    std::map<int, Calls> sends, receives;       // by peer
    std::map<int, std::size_t> sent, received;  // how many are done
    template <class Visit>
    void for_calls(const Visit& visit) const {
      for (const auto& call : collectives) visit(*call);
      for (const auto* calls : {&sends, &receives})
        for (const auto& [peer, list] : *calls)
          for (const auto& call : list) visit(*call);
    }
  };
  std::optional<std::string> progress_messages();
  void carry_out(std::size_t number);

  std::vector<Rank> ranks_;
  std::size_t collectives_done_ = 0;
  int joined_ = 0;
};

// The arithmetic: `calls[r]` is rank r's.
void carry_out_collective(const std::vector<NcclCall*>& calls);

}  // namespace emulator
