// The mpi transport, and the one file with <mpi.h>.
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "chimera/base/threads.h"
#include "chimera/comm/collectives.h"

namespace chimera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEndTag = Communicator::kTags;  // the barrier before MPI_Finalize
constexpr double kAbortSeconds = 5;           // MPI_Abort may return or hang; then the process ends
constexpr std::chrono::milliseconds kMessageHeadStart{200};

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  Fail(call, " failed: ", std::string_view(text, static_cast<std::size_t>(length)));
}

// A deadline for MPI calls that block: unless destroyed in time, ends this process.
class Watchdog {
 public:
  Watchdog(double seconds, std::string message, int exit_code)
      : thread_([this, seconds, message = std::move(message), exit_code] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, 1e8)),
                                [this] { return done_; }))
            return;
          if (!message.empty()) std::fprintf(stderr, "%s\n", message.c_str());
          std::fflush(stderr);
          _exit(exit_code);
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

// Waiting without spinning: with more ranks than cores a spinning one keeps its peer from sending.
class BackOff {
 public:
  void pause() {
    ++tries_;
    if (tries_ <= kImmediate) return;
    if (tries_ <= kImmediate + kYields) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(sleep_));
    sleep_ = std::min(sleep_ * 3 / 2, kLongestSleep);
  }

 private:
  static constexpr int kImmediate = 8, kYields = 32, kLongestSleep = 200;
  int tries_ = 0, sleep_ = 10;
};

[[noreturn]] void end_all_ranks(const std::string& message, ExitCode exit_code) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fflush(stdout);
  std::fprintf(stderr, "rank %d: %s\n", rank, message.c_str());
  std::fflush(stderr);
  // The launcher reads the message from a pipe, and MPI_Abort may make it stop reading at once.
  std::this_thread::sleep_for(kMessageHeadStart);
  const int code = static_cast<int>(exit_code);
  const Watchdog watchdog(kAbortSeconds, "", code);
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

[[noreturn]] void end_all_ranks(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    end_all_ranks(e.what(), e.code());
  } catch (const std::exception& e) {
    end_all_ranks(e.what(), ExitCode::Error);
  } catch (...) {
    end_all_ranks("an exception of unknown type", ExitCode::Error);
  }
}

// What the endpoints of a rank share. MPI is initialised for one call at a time (SERIALIZED): each
// of ours is short, none blocks, and all are made by a thread that has entered.
class Process {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // Before each call of MPI, which are over when the lock goes. After a failure nobody enters.
  Lock enter() {
    Lock lock(mutex_);
    if (ending_) park(lock);
    if (failed_) throw Aborted("this rank ends because another of its threads failed");
    return lock;
  }
  // Of an error that is not known yet. The buffers of what is under way may go from now on.
  void fail() {
    const Lock lock(mutex_);
    failed_ = true;
  }
  // Ends the job from the thread that failed first, while all buffers stay: a peer that is reading
  // one (MPICH's UCX reads the sender's memory) would die of its own error if it went.
  [[noreturn]] void end(const std::exception_ptr& error) {
    Lock lock(mutex_);
    if (ending_) park(lock);
    ending_ = true;
    lock.unlock();
    end_all_ranks(error);
  }
  bool failed() {
    const Lock lock(mutex_);
    return failed_;
  }

  std::size_t left_behind = 0;  // messages of endpoints that were destroyed

 private:
  [[noreturn]] static void park(Lock& lock) {
    lock.unlock();
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  std::mutex mutex_;
  bool failed_ = false, ending_ = false;
};

class MpiCommunicator final : public Communicator {
 public:
  // `comm`: a duplicate of the world, for this endpoint alone: nothing else can match its messages.
  // `second`: another one, for the second endpoint.
  MpiCommunicator(Process& process, double deadline_seconds, Index chunk_bytes, MPI_Comm comm,
                  MPI_Comm second, const MpiCommunicator* first = nullptr)
      : process_(process),
        deadline_seconds_(deadline_seconds),
        chunk_bytes_(chunk_bytes),
        comm_(comm),
        second_(second),
        first_(first) {
    const Process::Lock lock = process_.enter();
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int* largest_tag = nullptr;
    int known = 0;
    check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, &largest_tag, &known), "MPI_Comm_get_attr");
    ENSURE(known != 0 && *largest_tag >= kEndTag, "this MPI allows no tags up to ", kEndTag);
    reserve(64);
  }
  ~MpiCommunicator() override { process_.left_behind += outstanding(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string transport() const override { return "mpi"; }

  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    return start(peer, channel, const_cast<std::byte*>(bytes.data()), std::ssize(bytes), false);
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    return start(peer, channel, bytes.data(), std::ssize(bytes), true);
  }

  void wait(Request request, std::string_view what) override {
    if (request == 0) return;
    const std::size_t index = find(request);
    try {
      wait_for(index, what);
    } catch (const Aborted&) {
      throw;
    } catch (...) {
      process_.end(std::current_exception());
    }
    const Process::Lock lock = process_.enter();
    Message& message = messages_[index];
    message.used = false;
    ++message.generation;
    free_.push_back(index);
  }

  void throw_if_failed() override { const Process::Lock lock = process_.enter(); }

  void abandon() noexcept override {
    if (outstanding() > 0) fail(nullptr);
  }

  std::unique_ptr<Communicator> second_endpoint() override {
    ENSURE(first_ == nullptr, "a second endpoint has no second endpoint");
    return std::make_unique<MpiCommunicator>(process_, deadline_seconds_, chunk_bytes_, second_,
                                             MPI_COMM_NULL, this);
  }

  void fail(std::exception_ptr error) noexcept override {
    if (error) process_.end(error);
    process_.fail();
  }

  // Of the first endpoint, when the body has returned.
  void finish() {
    ENSURE(!process_.failed(), "it ended with background jobs that it never waited for");
    const std::size_t left = process_.left_behind + outstanding();
    ENSURE(left == 0, "it ended with ", left, " messages that it never waited for");
    barrier(*this, kEndTag, "the end of the job");
    check(MPI_Comm_free(&comm_), "MPI_Comm_free");
    check(MPI_Comm_free(&second_), "MPI_Comm_free");
  }

 private:
  struct Message {
    bool used = false;
    bool receives = false;
    int peer = 0, channel = 0;
    Index bytes = 0;
    Index chunks_left = 0;
    std::uint32_t generation = 0;  // tells a request from an earlier one in the same place
  };
  struct Chunk {
    std::size_t message;
    Index offset;
    int bytes;
  };

  std::size_t outstanding() const { return messages_.size() - free_.size(); }

  void wait_for(std::size_t index, std::string_view what) {
    const double deadline =
        deadline_seconds_ * timeout_scale() * (first_ == nullptr ? 1 : first_->timeout_scale());
    // Looks follow each other fast: a longer break means that this process was stopped (Ctrl-Z).
    constexpr double kLongestBreak = 0.25;
    double waited = 0;
    Clock::time_point last = Clock::now();
    for (BackOff back_off; !poll(index); back_off.pause()) {
      const Clock::time_point now = Clock::now();
      waited += std::min(kLongestBreak, std::chrono::duration<double>(now - last).count());
      last = now;
      if (waited < deadline) continue;
      Fail("waited ", deadline, " s for worker ", peer_of(index), " in ", what,
           " (the deadline is parallel.timeout_seconds)");
    }
  }

  void reserve(std::size_t count) {
    messages_.reserve(count);
    free_.reserve(count);
    reserve_chunks(count);
  }
  void reserve_chunks(std::size_t count) {
    handles_.reserve(count);
    chunks_.reserve(count);
    finished_.resize(count);
    statuses_.resize(count);
  }

  int peer_of(std::size_t index) {
    const Process::Lock lock = process_.enter();
    return messages_[index].peer;
  }

  std::size_t find(Request request) {
    const Process::Lock lock = process_.enter();
    const auto index = static_cast<std::size_t>((request & 0xffffffff) - 1);
    ENSURE(index < messages_.size() && messages_[index].used &&
               messages_[index].generation == request >> 32,
           "worker ", rank_, " waits for request ", request, ", which has ended or is not its own");
    return index;
  }

  // The last chunk is always shorter than the others (perhaps empty): so sender and receiver see
  // the end of a message even when they disagree about its length.
  Request start(int peer, int channel, std::byte* data, Index bytes, bool receives) {
    ENSURE(peer >= 0 && peer < size_, "there is no worker ", peer, ": they are 0 to ", size_ - 1);
    ENSURE(channel >= 0 && channel <= kEndTag, "there is no channel ", channel);
    const Process::Lock lock = process_.enter();
    if (free_.empty()) {
      messages_.emplace_back();
      free_.reserve(messages_.capacity());
      free_.push_back(messages_.size() - 1);
    }
    const std::size_t index = free_.back();
    free_.pop_back();
    Message& message = messages_[index];
    message = {.used = true,
               .receives = receives,
               .peer = peer,
               .channel = channel,
               .bytes = bytes,
               .chunks_left = bytes / chunk_bytes_ + 1,
               .generation = message.generation & 0x7fffffff};
    for (Index offset = 0; offset <= bytes; offset += chunk_bytes_) {
      const int length = static_cast<int>(std::min(chunk_bytes_, bytes - offset));
      MPI_Request handle = MPI_REQUEST_NULL;
      if (receives)
        check(MPI_Irecv(data + offset, length, MPI_BYTE, peer, channel, comm_, &handle),
              "MPI_Irecv");
      else
        check(MPI_Isend(data + offset, length, MPI_BYTE, peer, channel, comm_, &handle),
              "MPI_Isend");
      handles_.push_back(handle);
      chunks_.push_back({index, offset, length});
    }
    if (handles_.size() > finished_.size()) reserve_chunks(2 * handles_.size());
    return Index{message.generation} << 32 | static_cast<Index>(index + 1);
  }

  // Whether that message is done. Progress for all requests, not only this one; another thread may
  // post meanwhile (staged messages of a GPU).
  bool poll(std::size_t index) {
    const Process::Lock lock = process_.enter();
    progress();
    return messages_[index].chunks_left == 0;
  }
  void progress() {
    if (handles_.empty()) return;
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &count,
                                  finished_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return;
    for (int i = 0; i < count; ++i) {
      const Chunk& chunk =
          chunks_[static_cast<std::size_t>(finished_[static_cast<std::size_t>(i)])];
      check_chunk(chunk, statuses_[static_cast<std::size_t>(i)], code == MPI_ERR_IN_STATUS);
      --messages_[chunk.message].chunks_left;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i] == MPI_REQUEST_NULL) continue;
      handles_[kept] = handles_[i];
      chunks_[kept++] = chunks_[i];
    }
    handles_.resize(kept);
    chunks_.resize(kept);
  }

  void check_chunk(const Chunk& chunk, const MPI_Status& status, bool has_error) const {
    const Message& message = messages_[chunk.message];
    int error_class = MPI_SUCCESS;
    if (has_error && status.MPI_ERROR != MPI_SUCCESS)
      MPI_Error_class(status.MPI_ERROR, &error_class);
    const bool truncated = message.receives && error_class == MPI_ERR_TRUNCATE;
    if (error_class != MPI_SUCCESS && !truncated)
      check(status.MPI_ERROR, message.receives ? "receiving" : "sending");
    if (!message.receives) return;
    int count = 0;
    if (!truncated) check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    if (!truncated && count == chunk.bytes) return;
    const std::string sent =
        truncated ? concat("more than ", message.bytes)
                  : concat(count == chunk_bytes_ ? "at least " : "", chunk.offset + count);
    Fail("the message from worker ", message.peer, " to worker ", rank_, " on channel ",
         message.channel, " has ", sent, " bytes, its receiver expects ", message.bytes);
  }

  Process& process_;
  const double deadline_seconds_;
  const Index chunk_bytes_;
  MPI_Comm comm_, second_;
  const MpiCommunicator* const first_;
  int rank_ = 0, size_ = 0;
  std::vector<Message> messages_;
  std::vector<std::size_t> free_;  // of messages_
  std::vector<MPI_Request> handles_;
  std::vector<Chunk> chunks_;  // beside handles_
  std::vector<int> finished_;  // at least as long, for MPI_Testsome
  std::vector<MPI_Status> statuses_;
};

// Returns the world's size.
int initialise(double deadline_seconds) {
  int initialised = 0, provided = 0, size = 0;
  check(MPI_Initialized(&initialised), "MPI_Initialized");
  ENSURE(initialised == 0, "run_mpi() was called twice: MPI cannot start again in one process");
  const Watchdog watchdog(deadline_seconds,
                          concat("MPI_Init did not return within ", deadline_seconds,
                                 " s: does the launcher belong to ", mpi_library(), "?"),
                          static_cast<int>(ExitCode::Error));
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  ENSURE(provided >= MPI_THREAD_SERIALIZED, mpi_library(),
         " allows calls from one thread alone, but reductions run beside the computation; on Cray "
         "systems set MPICH_MAX_THREAD_SAFETY=serialized");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

void finalise(double deadline_seconds) {
  const Watchdog watchdog(deadline_seconds,
                          concat("MPI_Finalize did not return within ", deadline_seconds, " s"),
                          static_cast<int>(ExitCode::Error));
  check(MPI_Finalize(), "MPI_Finalize");
}

MPI_Comm duplicate_of_the_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return comm;
}

}  // namespace

bool mpi_built() { return true; }

// An extension of MPICH and Open MPI, looked for by name: not every MPI has it.
bool mpi_takes_gpu_memory() {
  const auto query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query == nullptr || query() == 1;
}

// "MPICH Version:\t4.0.2\n…" and "Open MPI v4.1.4, package: …" become "MPICH 4.0.2", "Open MPI
// v4.1.4".
std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  std::string first_line(text, static_cast<std::size_t>(length));
  first_line.resize(std::min(first_line.find_first_of(",\n"), first_line.size()));
  std::istringstream words(first_line);
  std::string name, word;
  while (words >> word)
    if (word != "Version:") name += (name.empty() ? "" : " ") + word;
  return name;
}

void run_mpi(double deadline_seconds, int threads_per_worker,
             const std::function<void(Communicator&)>& body, Index chunk_bytes) {
  ENSURE(deadline_seconds > 0, "a deadline of ", deadline_seconds,
         " s is none; set parallel.timeout_seconds above 0");
  ENSURE(chunk_bytes >= 1 && chunk_bytes <= Index{1} << 30, "chunks of ", chunk_bytes, " bytes");
  const int size = initialise(deadline_seconds), launched = launched_processes();
  if (launched > 0 && launched != size) {
    finalise(deadline_seconds);
    FailUsage("the launcher started ", launched, " processes but MPI sees ", size,
              ": they do not know of each other. Under Slurm use `srun --mpi=pmi2` (for Open MPI "
              "`srun --mpi=pmix`), elsewhere the mpirun that belongs to ",
              mpi_library());
  }
  Process process;
  try {
    const MPI_Comm first = duplicate_of_the_world(), second = duplicate_of_the_world();
    MpiCommunicator endpoint(process, deadline_seconds, chunk_bytes, first, second);
    set_team_size(threads_per_worker);
    body(endpoint);
    endpoint.finish();
  } catch (...) {
    process.end(std::current_exception());
  }
  finalise(deadline_seconds);
}

}  // namespace chimera
