#include "chimera/runtime/launch.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>

#include "chimera/base/threads.h"

namespace chimera {
namespace {

constexpr Index kMostThreads = 1024;

std::atomic<bool> stop_signal{false};  // the one thing that a signal handler may touch

Index environment_number(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : std::max<Index>(0, strtol(text, nullptr, 10));
}

// Ranks that share this node's cores.
Index local_ranks() {
  for (const char* name :
       {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"})
    if (const Index n = environment_number(name); n > 0) return n;
  return 1;
}

}  // namespace

std::string choose_transport(const Config& config) {
  const Index needed = config.workers(), started = launched_processes();
  // NCCL carries tensors; who runs, and what else they say to each other, is as with auto.
  const std::string wanted =
      config.parallel.transport == "nccl" ? "auto" : config.parallel.transport;
  const std::string layout = concat("parallel.depth ", config.parallel.request.depth,
                                    " x parallel.width ", config.parallel.request.width);
  if (started > 1 && wanted == "local")
    FailUsage("parallel.transport is local, but the launcher started ", started,
              " processes, each of which would run the whole job; start one process without the "
              "launcher, or set it to auto");
  if (wanted == "local" || (wanted == "auto" && started <= 1 && needed != 1)) {
    if (started == 1 && needed > 1 && wanted == "auto")
      FailUsage("the launcher started 1 process, but ", layout, " needs ", needed, "; start ",
                needed, " (mpirun -n ", needed,
                "), or set parallel.transport to local to use threads");
    if (needed > kMostThreads)
      FailUsage(layout, " needs ", needed, " workers; as threads of one process at most ",
                kMostThreads, " are supported: start them with mpirun or srun");
    return "local";
  }
  if (wanted == "auto" && started <= 1) return "local";
  if (started == 0)
    FailUsage(
        "parallel.transport is mpi, but this process was started by no launcher; use mpirun -n ",
        needed, " chimera train ..., or set it to auto");
  if (started != needed)
    FailUsage("the launcher started ", started, " processes, but ", layout, " needs ", needed,
              " workers; use mpirun -n ", needed, ", or change the layout");
  return "mpi";
}

Index workers_per_node(const Config& config, const std::string& transport) {
  return transport == "mpi" ? std::min(local_ranks(), config.workers()) : config.workers();
}

Index local_rank() {
  for (const char* name : {"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
    if (getenv(name) != nullptr) return environment_number(name);
  return 0;
}

int threads_per_worker(const Config& config, const std::string& transport) {
  if (config.device.threads > 0) return narrow<int>(config.device.threads);
  return narrow<int>(std::max<Index>(1, available_cores() / workers_per_node(config, transport)));
}

void run_workers(const Config& config, const std::function<void(Communicator&)>& body) {
  const std::string transport = choose_transport(config);
  const int threads = threads_per_worker(config, transport);
  const double deadline = config.parallel.timeout_seconds;
  if (transport == "mpi") return run_mpi(deadline, threads, body);
  run_local(narrow<int>(config.workers()), deadline, threads, body);
}

void catch_stop_signals() {
  stop_signal.store(false);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_signal.store(true); };
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup ignores it
  sigaction(SIGPIPE, &ignore,
            nullptr);  // a reader of the step lines that ends does not end the run
}

bool stop_signal_received() { return stop_signal.load(); }

}  // namespace chimera
