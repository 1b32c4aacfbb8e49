// The nccl transport, and the one file with <nccl.h>.
//
// Each directed link between two workers is a communicator of two ranks with a stream of its own:
// messages match by their order on the link alone, and no link holds up another. Sums have one
// communicator of all ranks, on the Reductions stream.
#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "device/back_off.h"
#include "device/launch.h"
#include "device/transfer_log.h"
#include "transports.h"

namespace chimera {
namespace {

constexpr int kSetupTag = Communicator::kTags - 1;  // of the host's endpoint
// What an empty message moves, so that it is matched as all others are; no tensor has this size.
constexpr Index kEmptyBytes = 3;
constexpr std::chrono::milliseconds kWatchEvery{50};
constexpr double kLookEvery = 1;  // seconds, or a tenth of the deadline: for transfers that hang

void check_nccl(ncclResult_t status, const char* what, ncclComm_t comm = nullptr) {
  if (status == ncclSuccess) return;
  const char* const details = ncclGetLastError(comm);
  Fail("NCCL, ", what, ": ", ncclGetErrorString(status), " (", details == nullptr ? "" : details,
       ")");
}

// Calls that begin together; left without start() they are thrown away, or fail.
class Group {
 public:
  explicit Group(ncclComm_t comm) : comm_(comm) {
    check_nccl(ncclGroupStart(), "beginning a group", comm);
  }
  ~Group() {
    if (!ended_) ncclGroupEnd();
  }
  Group(const Group&) = delete;
  void start() {
    ended_ = true;
    check_nccl(ncclGroupEnd(), "starting a group", comm_);
  }

 private:
  ncclComm_t comm_;
  bool ended_ = false;
};

// One direction between two workers.
struct Link {
  int source = 0, destination = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

// What both endpoints of a worker share: communicators, and the thread that ends them when a worker
// fails or a transfer does not end. An aborted communicator frees the streams that wait for it.
class NcclJob {
 public:
  NcclJob(Communicator& host, CudaDevice& device, const DeviceTransportSettings& settings)
      : host_(host), device_(device), settings_(settings) {
    select();
    const auto bytes = static_cast<std::size_t>(4 * kEmptyBytes * host.size());
    check_cuda(cudaMalloc(&empty_, bytes), "allocating for empty messages");
    check_cuda(cudaMemset(empty_, 0, bytes), "clearing it");
    check_cuda(cudaDeviceSynchronize(), "clearing it");
    watchdog_ = std::thread([this] { watch(); });
  }
  ~NcclJob() {
    {
      const std::lock_guard lock(stop_mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    watchdog_.join();
    cudaSetDevice(device_.ordinal());
    if (!over_) {
      for (const Link& link : links) ncclCommDestroy(link.comm);
      if (everybody != nullptr) ncclCommDestroy(everybody);
    }
    for (const Link& link : links)
      if (link.stream != nullptr) cudaStreamDestroy(link.stream);
    cudaFree(empty_);
  }
  NcclJob(const NcclJob&) = delete;

  void select() const { check_cuda(cudaSetDevice(device_.ordinal()), "selecting the GPU"); }
  // Throws where the job has failed.
  void throw_if_over() {
    if (!over_) return;
    host_.throw_if_failed();
    throw Aborted(concat("worker ", host_.rank(), "'s messages have been aborted"));
  }
  // NCCL is called, and its communicators are listed, under the lock. Throws where the job has
  // failed.
  std::unique_lock<std::mutex> enter(int endpoint) {
    std::unique_lock lock(calls_[static_cast<std::size_t>(endpoint)]);
    throw_if_over();
    return lock;
  }
  // Of each endpoint, peer and direction.
  std::byte* empty(int endpoint, int peer, bool sends) const {
    return static_cast<std::byte*>(empty_) +
           kEmptyBytes * (4 * peer + 2 * endpoint + (sends ? 1 : 0));
  }
  // What has not ended for the deadline, by the name of the wait; throws it.
  void throw_if_stuck(double waited) {
    for (TransferLog& log : logs)
      if (const TransferLog::Unfinished u = log.look(); u.number != 0) fail_waiting(waited, u);
  }
  // The job has failed: nothing that was given to NCCL holds up a stream any more.
  void end(std::exception_ptr error) noexcept {
    host_.fail(std::move(error));
    abort();
  }

  std::vector<Link> links;  // in the order made
  ncclComm_t everybody = nullptr;
  std::array<TransferLog, 2> logs;  // of the first endpoint, and of the second

 private:
  void abort() noexcept {
    if (over_.exchange(true)) return;
    // A call that sits in NCCL is what aborting is for: no lock is waited for too long.
    std::array<std::unique_lock<std::mutex>, 2> locks;
    for (std::size_t i = 0; i < locks.size(); ++i) {
      locks[i] = std::unique_lock(calls_[i], std::defer_lock);
      Patience timeout_scale;
      for (BackOff back_off; !locks[i].try_lock() && timeout_scale.waited() < 2;) back_off.pause();
    }
    cudaSetDevice(device_.ordinal());
    for (const Link& link : links)
      if (link.comm != nullptr) ncclCommAbort(link.comm);
    if (everybody != nullptr) ncclCommAbort(everybody);
  }

  [[noreturn]] static void fail_waiting(double seconds, const TransferLog::Unfinished& u) {
    Fail("waited ", seconds, " s for ", u.peers, " in ", u.what,
         " (the deadline is parallel.timeout_seconds)");
  }

  void watch() {
    try {
      select();
      struct Seen {
        Index number = 0;
        Patience timeout_scale;
      };
      std::array<Seen, 2> seen;
      Patience since_look;
      for (;;) {
        {
          std::unique_lock lock(stop_mutex_);
          if (stop_.wait_for(lock, kWatchEvery, [this] { return stopping_; })) return;
        }
        if (over_) return;
        host_.throw_if_failed();
        throw_asynchronous_errors();
        const double deadline = settings_.deadline_seconds * host_.timeout_scale();
        if (since_look.waited() < std::min(kLookEvery, deadline / 10)) continue;
        since_look = {};
        for (std::size_t i = 0; i < seen.size(); ++i) {
          const TransferLog::Unfinished u = logs[i].look();
          if (u.number != seen[i].number) seen[i] = {u.number, {}};
          if (u.number != 0 && seen[i].timeout_scale.waited() >= deadline)
            fail_waiting(deadline, u);
        }
      }
    } catch (const Aborted&) {
      abort();
    } catch (...) {
      end(std::current_exception());
    }
  }

  // NCCL tells of a rank that has gone before its messages are missed.
  void throw_asynchronous_errors() {
    std::unique_lock lock(calls_[0], std::try_to_lock);
    std::unique_lock second(calls_[1], std::try_to_lock);
    if (!lock || !second || over_) return;
    const auto look = [&](ncclComm_t comm, const std::string& whom) {
      ncclResult_t error = ncclSuccess;
      if (comm == nullptr || ncclCommGetAsyncError(comm, &error) != ncclSuccess) return;
      if (error == ncclSuccess || error == ncclInProgress) return;
      host_.throw_if_failed();  // the cause, where it is known
      const TransferLog::Unfinished u = logs[0].look();
      Fail("NCCL between worker ", host_.rank(), " and ", whom, ": ", ncclGetErrorString(error),
           u.number == 0 ? "" : concat(", while it waited for ", u.peers, " in ", u.what), " (",
           ncclGetLastError(comm), ")");
    };
    for (const Link& link : links)
      look(link.comm,
           concat("worker ", link.source == host_.rank() ? link.destination : link.source));
    look(everybody, "the others");
  }

  Communicator& host_;
  CudaDevice& device_;
  const DeviceTransportSettings settings_;
  void* empty_ = nullptr;
  std::array<std::mutex, 2> calls_;  // of each endpoint
  std::atomic<bool> over_ = false;
  std::mutex stop_mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread watchdog_;
};

class NcclCommunicator : public DeviceCommunicator {
 public:
  std::string transport() const final { return "nccl"; }
  Request send_start(int peer, int channel, std::span<const std::byte> bytes) final {
    return start(peer, channel, const_cast<std::byte*>(bytes.data()), std::ssize(bytes), true);
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) final {
    return start(peer, channel, bytes.data(), std::ssize(bytes), false);
  }
  void wait(Request request, std::string_view what) final {
    if (request == 0) return;
    Transfer& transfer = log_.open(request, rank());
    job_.throw_if_over();
    job_.select();
    if (!transfer.enqueued) flush();
    transfer.done->hold(cuda_.stream(stream()));
    log_.waited_for(request, what);
  }
  // Transfers that were waited for hold up their stream until they end, or the job is aborted.
  void abandon() noexcept final {
    const bool unwinding = std::uncaught_exceptions() > 0;
    if (!log_.any_open() && !unwinding) return;
    job_.end(nullptr);
    try {
      device().synchronize();
    } catch (...) {  // a GPU that has failed does nothing any more
    }
  }
  void fail(std::exception_ptr error) noexcept final { job_.end(std::move(error)); }

  void synchronize(std::string_view what) final {
    const double deadline = settings_.deadline_seconds * host().timeout_scale();
    for (int l = 0; l < kStreams; ++l)
      device().record(*lanes_[static_cast<std::size_t>(l)], static_cast<Stream>(l));
    Patience timeout_scale;
    for (const auto& stream : lanes_)
      for (BackOff back_off; !device().reached(*stream); back_off.pause()) {
        throw_if_failed();
        if (timeout_scale.waited() < deadline) continue;
        job_.throw_if_stuck(deadline);
        Fail("waited ", deadline, " s for the GPU in ", what,
             " (the deadline is parallel.timeout_seconds)");
      }
    throw_if_failed();  // what an abort has let go did not end well
  }

 protected:
  NcclCommunicator(NcclJob& job, Communicator& host, CudaDevice& device,
                   const DeviceTransportSettings& settings)
      : DeviceCommunicator(host, device, Stream::Compute, make_cuda_adder(device, Stream::Compute)),
        job_(job),
        cuda_(device),
        settings_(settings),
        log_(job.logs[0]) {
    make_marks();
  }
  NcclCommunicator(NcclJob& job, std::unique_ptr<Communicator> host, CudaDevice& device,
                   const DeviceTransportSettings& settings)
      : DeviceCommunicator(std::move(host), device, Stream::Reductions,
                           make_cuda_adder(device, Stream::Reductions)),
        job_(job),
        cuda_(device),
        settings_(settings),
        log_(job.logs[1]) {
    make_marks();
  }

  Request start(int peer, int channel, std::byte* data, Index bytes, bool sends) {
    ENSURE(peer >= 0 && peer < size(), "there is no worker ", peer, ": they are 0 to ", size() - 1);
    ENSURE(channel >= 0 && channel < kTags, "there is no channel ", channel);
    ENSURE(std::ranges::count(partners(), peer) > 0, "worker ", rank(), " and worker ", peer,
           " are not connected for this (DeviceTransportSettings::peers, members)");
    job_.throw_if_over();
    job_.select();
    const Request request =
        log_.begin(peer, sends, bytes > 0 ? data : job_.empty(endpoint(), peer, sends),
                   bytes > 0 ? bytes : kEmptyBytes);
    post(request);
    return request;
  }
  virtual const std::vector<int>& partners() const = 0;
  virtual void post(Request request) = 0;
  virtual void flush() {}  // afterwards all that was posted is enqueued

  // Between groups or on its own; `other`: the peer's rank in the communicator.
  static void enqueue(const Transfer& t, int other, ncclComm_t comm, cudaStream_t stream) {
    const auto bytes = static_cast<std::size_t>(t.bytes);
    check_nccl(t.sends ? ncclSend(t.data, bytes, ncclInt8, other, comm, stream)
                       : ncclRecv(t.data, bytes, ncclInt8, other, comm, stream),
               t.sends ? "sending a message" : "receiving a message", comm);
  }

  NcclJob& job_;
  CudaDevice& cuda_;
  const DeviceTransportSettings settings_;
  TransferLog& log_;

 private:
  int endpoint() const { return stream() == Stream::Reductions ? 1 : 0; }
  void make_marks() {
    for (auto& mark : lanes_) mark = device().make_event();
  }
  std::array<std::unique_ptr<Event>, kStreams> lanes_;
};

// Sums: what is posted until a wait is one group, on the stream itself.
class NcclSums final : public NcclCommunicator {
 public:
  NcclSums(NcclJob& job, std::unique_ptr<Communicator> host, CudaDevice& device,
           const DeviceTransportSettings& settings)
      : NcclCommunicator(job, std::move(host), device, settings) {}
  ~NcclSums() override {
    if (log_.any_open()) job_.end(nullptr);
  }
  std::unique_ptr<Communicator> second_endpoint() override {
    Fail("a second endpoint has no second endpoint");
  }

 private:
  const std::vector<int>& partners() const override { return settings_.members; }
  void post(Request request) override {
    if (first_ == 0) first_ = request;
  }
  void flush() override {
    const cudaStream_t queue = cuda_.stream(stream());
    const auto lock = job_.enter(1);
    const Index last = log_.next();
    {
      Group group(job_.everybody);
      for (Index n = first_; n < last; ++n)
        enqueue(log_.at(n), log_.at(n).peer, job_.everybody, queue);
      group.start();
    }
    for (Index n = first_; n < last; ++n) {
      log_.at(n).done->record(queue);
      log_.enqueued(n, first_);
    }
    first_ = 0;
  }

  Index first_ = 0;  // that is posted and not enqueued
};

// Micro-batches: each message is enqueued at once on its link.
class NcclMessages final : public NcclCommunicator {
 public:
  NcclMessages(std::unique_ptr<NcclJob> job, Communicator& host, CudaDevice& device,
               const DeviceTransportSettings& settings)
      : NcclCommunicator(*job, host, device, settings), owned_(std::move(job)) {
    try {
      make_links();
      make_group_of_all();
    } catch (...) {
      job_.end(nullptr);
      throw;
    }
  }
  ~NcclMessages() override {
    try {
      if (std::uncaught_exceptions() > 0 || log_.any_open()) job_.end(nullptr);
      synchronize("the end of the messages");
    } catch (...) {
      job_.end(std::current_exception());
    }
  }
  std::unique_ptr<Communicator> second_endpoint() override {
    return std::make_unique<NcclSums>(job_, host().second_endpoint(), cuda_, settings_);
  }

 private:
  const std::vector<int>& partners() const override { return settings_.peers; }
  void post(Request request) override {
    Transfer& t = log_.at(request);
    const auto link = std::ranges::find_if(
        job_.links, [&](const Link& l) { return (t.sends ? l.destination : l.source) == t.peer; });
    const auto lock = job_.enter(0);
    t.done->record(cuda_.stream(stream()));
    t.done->hold(link->stream);
    enqueue(t, t.sends ? 1 : 0, link->comm, link->stream);
    t.done->record(link->stream);
    log_.enqueued(request, request);
  }

  // In one order on all ranks, by (smaller rank, larger rank, direction), each with its first
  // message: NCCL connects two ranks only then, and takes its time for it.
  void make_links() {
    std::vector<int> peers = settings_.peers;
    std::ranges::sort(peers);
    peers.erase(std::ranges::unique(peers).begin(), peers.end());
    std::ranges::sort(peers, {},
                      [&](int p) { return std::pair(std::min(p, rank()), std::max(p, rank())); });
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    job_.links.reserve(2 * peers.size());
    for (const int peer : peers) {
      ENSURE(peer >= 0 && peer < size() && peer != rank(), "worker ", rank(),
             " cannot have a link with worker ", peer, " of ", size());
      const int low = std::min(peer, rank()), high = std::max(peer, rank());
      for (const bool down : {true, false}) {
        Link link{down ? low : high, down ? high : low};
        const std::string what =
            concat("the link from worker ", link.source, " to worker ", link.destination);
        const ncclUniqueId id = exchange_id(low, high, what);
        check_cuda(cudaStreamCreateWithPriority(&link.stream, cudaStreamNonBlocking, greatest),
                   "creating a stream");
        check_nccl(ncclCommInitRank(&link.comm, 2, id, link.source == rank() ? 0 : 1),
                   "making a communicator of two ranks");
        {
          const auto lock = job_.enter(0);
          job_.links.push_back(link);
        }
        const Request first =
            link.source == rank() ? send_start(peer, 0, {}) : recv_start(peer, 0, {});
        wait(first, what);
        synchronize(what);
      }
    }
  }
  ncclUniqueId exchange_id(int low, int high, const std::string& what) {
    ncclUniqueId id{};
    const std::span<ncclUniqueId> one(&id, 1);
    if (rank() == low) {
      check_nccl(ncclGetUniqueId(&id), "making an id");
      host().send(high, kSetupTag, std::as_bytes(one), what);
    } else {
      host().recv(low, kSetupTag, std::as_writable_bytes(one), what);
    }
    return id;
  }

  void make_group_of_all() {
    double sums = settings_.members.empty() ? 0 : 1;
    const char* const what = "the communicator of sums";
    sum_over_ranks(host(), kSetupTag, std::span(&sums, 1), what);
    if (sums == 0) return;
    ncclUniqueId id{};
    if (rank() == 0) check_nccl(ncclGetUniqueId(&id), "making an id");
    broadcast(host(), kSetupTag, 0, std::as_writable_bytes(std::span(&id, 1)), what);
    ncclComm_t comm = nullptr;
    check_nccl(ncclCommInitRank(&comm, size(), id, rank()), "making a communicator of all ranks");
    {
      const auto lock = job_.enter(0);
      job_.everybody = comm;
    }
    connect_members(what);
  }
  void connect_members(std::string_view what) {
    const cudaStream_t stream = cuda_.stream(Stream::Reductions);
    Group group(job_.everybody);
    for (const int member : settings_.members) {
      if (member == rank()) continue;
      for (const bool sends : {true, false})
        enqueue({.sends = sends,
                 .data = job_.empty(1, member, sends),
                 .bytes = kEmptyBytes,
                 .what = {},
                 .done = {}},
                member, job_.everybody, stream);
    }
    group.start();
    synchronize(what);
  }

  std::unique_ptr<NcclJob> owned_;
};

}  // namespace

bool nccl_built() { return true; }
std::string nccl_library() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "none";
  return concat("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(
    Communicator& host, CudaDevice& device, const DeviceTransportSettings& settings) {
  return std::make_unique<NcclMessages>(std::make_unique<NcclJob>(host, device, settings), host,
                                        device, settings);
}

}  // namespace chimera
