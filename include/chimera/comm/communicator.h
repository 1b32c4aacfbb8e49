#pragma once
// One worker's endpoint of a transport, for one thread of that worker. Messages are bytes; between
// two workers (or one and itself) they match in the order posted, per channel. Every wait has a
// deadline that ends the job, naming what was waited for.
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chimera/base/types.h"

namespace chimera {

// Another worker failed: the first error is reported by the transport, this one only unwinds.
class Aborted : public Error {
 public:
  using Error::Error;
};

class Adder;  // collectives.h

class Communicator {
 public:
  using Request = std::int64_t;                // of this endpoint; 0 is "nothing to wait for"
  static constexpr int kChannels = 128;        // 0 … kChannels - 1 are the caller's
  static constexpr int kTags = 2 * kChannels;  // OrderedSum sends sums on channel + kChannels

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string transport() const = 0;  // "local", "mpi"
  // The endpoint of the same thread for host memory: this one, except where this one's messages are
  // of a GPU's memory.
  virtual Communicator& host() { return *this; }
  // What adds numbers that lie where this endpoint's messages do; null: the host.
  virtual Adder* adder() { return nullptr; }

  // The bytes must stay valid and untouched until the request is waited for. The receiver's span
  // must have the sender's length: anything else is an Error on the receiver that names both.
  // Neither call blocks, and neither allocates after the first use of a (peer, channel).
  virtual Request send_start(int peer, int channel, std::span<const std::byte> bytes) = 0;
  virtual Request recv_start(int peer, int channel, std::span<std::byte> bytes) = 0;
  // Blocks (sleeping, never spinning for long) until done, and ends the request; `what` names the
  // wait in the error after the deadline: "waited 600 s for worker 1 in <what>". Throws Aborted
  // when another worker failed.
  virtual void wait(Request request, std::string_view what) = 0;
  // Throws what a wait would because a worker has failed.
  virtual void throw_if_failed() {}
  // Ends all requests of this endpoint, so that their buffers may be freed. With any left the job
  // has failed: an exception is on its way, and the other workers get Aborted.
  virtual void abandon() noexcept = 0;

  // Another endpoint of this worker, for one more thread (background.h): its messages match only
  // those of other second endpoints, and a failure is the whole worker's. One at a time; it must be
  // destroyed before this one. Talks to nobody.
  virtual std::unique_ptr<Communicator> second_endpoint() = 0;
  // From any thread: this worker has failed. With `error` (no Aborted) that is the job's failure,
  // the first counts: mpi ends all ranks, it does not return; local returns, what this worker's
  // endpoints wait for, now or later, throws `error`, and the other workers get Aborted. With null
  // they all get Aborted, and the exception that says why is on its way.
  virtual void fail(std::exception_ptr error) noexcept = 0;

  // Multiplies the deadline of the waits to come, also of the second endpoint's: above 1 while a
  // slow start is to be expected. From any thread.
  virtual void set_timeout_scale(double factor) { timeout_scale_ = factor; }
  double timeout_scale() const { return timeout_scale_; }

  void send(int peer, int channel, std::span<const std::byte> bytes, std::string_view what) {
    wait(send_start(peer, channel, bytes), what);
  }
  void recv(int peer, int channel, std::span<std::byte> bytes, std::string_view what) {
    wait(recv_start(peer, channel, bytes), what);
  }

 private:
  std::atomic<double> timeout_scale_ = 1;
};

// Owners of message buffers declare one after the buffers: an exception then ends the requests
// first.
class AbandonAtExit {
 public:
  explicit AbandonAtExit(Communicator& comm) : comm_(comm) {}
  ~AbandonAtExit() { comm_.abandon(); }
  AbandonAtExit(const AbandonAtExit&) = delete;

 private:
  Communicator& comm_;
};

// Runs body(endpoint) once per worker, each in a thread of its own with an OpenMP team of
// `threads_per_worker` (one worker runs in the calling thread); returns when all are done. The
// first exception (that is not Aborted) wakes all other waits with Aborted and is rethrown here,
// with its exit code, prefixed "worker R: " when there are several workers.
void run_local(int workers, double deadline_seconds, int threads_per_worker,
               const std::function<void(Communicator&)>& body);

// MPI. `mpi_built()` says whether this build has it; the others throw how to get it where it has
// not.
bool mpi_built();
std::string mpi_library();  // "MPICH 4.0.2"
// Whether it may be given pointers to a GPU's memory; true also where it does not say. Within
// run_mpi's body alone.
bool mpi_takes_gpu_memory();
// Whether this process was started by mpirun, srun or a relative, from their environment variables
// (PMI_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_STEP_NUM_TASKS): the number of processes they started,
// else 0.
int launched_processes();
// Why messages by NCCL may hang beside this process's MPI, from the environment (a CUDA-aware MPI,
// switched on), with the way out; empty where nothing says so.
std::string gpu_aware_mpi_warning();
// Initialises MPI for the rest of the process (call it once), runs body(endpoint) of this rank with
// an OpenMP team of `threads_per_worker`, and finalises MPI when every rank's body has returned.
// UsageError when the launcher's number of processes differs from MPI's world size (N singletons),
// with the way out. When `body` throws, the message is printed with the rank first, then MPI_Abort
// ends all ranks with the error's exit code: it does not return. Messages travel in chunks of at
// most `chunk_bytes` (MPI counts are 32-bit).
void run_mpi(double deadline_seconds, int threads_per_worker,
             const std::function<void(Communicator&)>& body, Index chunk_bytes = Index{1} << 30);

}  // namespace chimera
