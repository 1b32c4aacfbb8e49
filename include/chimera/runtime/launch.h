#pragma once
// Who runs: workers as threads of one process, or one per rank of mpirun or srun.
#include <functional>

#include "chimera/comm/communicator.h"
#include "chimera/setup/config.h"

namespace chimera {

// "local" or "mpi" for parallel.transport "auto" and the way this process was started. Refuses a
// launcher that started more or fewer processes than depth * width, with the way out.
std::string choose_transport(const Config& config);

// Workers that share this node's cores, as far as the launcher's variables tell.
Index workers_per_node(const Config& config, const std::string& transport);

// Of this process among those of its node, as the launcher's variables tell (Hydra, Open MPI,
// Slurm); 0 without a launcher.
Index local_rank();

// Threads of each worker: device.threads, or the cores of the node shared out among its workers.
int threads_per_worker(const Config& config, const std::string& transport);

// Runs `body` once per worker. A failing worker takes the others down, with its message first.
void run_workers(const Config& config, const std::function<void(Communicator&)>& body);

// SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless ignored, as by nohup) ask for a checkpoint and an end
// instead of killing the process. SIGPIPE is ignored.
// Forgets those that came before.
void catch_stop_signals();
bool stop_signal_received();

}  // namespace chimera
