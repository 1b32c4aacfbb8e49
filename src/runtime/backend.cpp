#include "chimera/runtime/backend.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "chimera/base/file.h"
#include "chimera/base/log.h"
#include "chimera/comm/collectives.h"
#include "chimera/comm/device_transport.h"
#include "chimera/device/cuda_info.h"
#include "chimera/ops/cuda_ops.h"
#include "chimera/ops/half_ops.h"
#include "chimera/runtime/affinity.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/worker.h"
#include "chimera/setup/memory_check.h"

namespace chimera {
namespace {

constexpr int kBackendChannel = 103;

// Whom a worker exchanges micro-batches with, by rank.
std::vector<int> peers_of(const Programs& programs, int rank) {
  const int depth = programs.train.depth, replica = rank / depth;
  std::set<int> peers;
  for (const schedule::Schedule* plan : {&programs.train, &programs.evaluation})
    for (const schedule::Instr& in : plan->programs[static_cast<std::size_t>(rank % depth)].body)
      if (in.op == schedule::Op::SendStart || in.op == schedule::Op::RecvStart)
        peers.insert(replica * depth + in.peer);
  return {peers.begin(), peers.end()};
}

// Whom a worker shares sums with, by rank: the other holders of its stages in all replicas.
std::vector<int> members_of(const Programs& programs, int rank) {
  const int depth = programs.train.depth;
  std::set<int> members;
  for (const schedule::Group& group : programs.train.groups) {
    const auto holds = [&](const schedule::Holder& h) { return h.worker == rank % depth; };
    if (std::ranges::none_of(group.holders, holds)) continue;
    for (int replica = 0; replica < programs.train.width; ++replica)
      for (const schedule::Holder& h : group.holders) members.insert(replica * depth + h.worker);
  }
  members.erase(rank);
  return {members.begin(), members.end()};
}

// A number for the GPU `bus` of this node, the same in every process of the node, that a double
// holds.
double identity_of(const std::string& bus) {
  char node[256] = {};
  gethostname(node, sizeof node - 1);
  constexpr std::size_t kExact = std::size_t{1} << 52;
  return static_cast<double>(std::hash<std::string>{}(concat(node, "/", bus)) % kExact + 1);
}

std::string bus_of(const CudaDevice& device) { return cuda_device(device.ordinal()).bus; }

// Ranks that are processes must have GPUs of their own; they find out together.
void refuse_sharing(Communicator& comm, const CudaDevice& device) {
  std::vector<double> all(static_cast<std::size_t>(comm.size()));
  const std::string bus = bus_of(device);
  const double mine = identity_of(bus);
  all[static_cast<std::size_t>(comm.rank())] = mine;
  sum_over_ranks(comm, kBackendChannel, all, "the GPUs of all ranks");
  for (int rank = 0; rank < comm.size(); ++rank)
    if (rank != comm.rank() && all[static_cast<std::size_t>(rank)] == mine)
      Fail("ranks ", std::min(rank, comm.rank()), " and ", std::max(rank, comm.rank()),
           " would share ", device.name(), " (", bus,
           "); start no more ranks on a node than it has GPUs (srun --ntasks-per-node, mpirun "
           "-ppn), "
           "or run the workers of a node as threads of one process (no launcher)");
}

int ordinal_of(const Communicator& comm, const std::string& launch) {
  const int devices = cuda_device_count();
  if (launch == "local") return comm.rank() % devices;
  const Index local = local_rank();
  // One visible device: the launcher chose it (--gpus-per-task), or there is only one.
  if (devices == 1) return 0;
  ENSURE(local < devices, "this is rank ", local, " of its node, which shows ", devices,
         " GPUs (CUDA_VISIBLE_DEVICES counts); start no more ranks on a node than it has GPUs");
  return static_cast<int>(local);
}

// Why device.kind auto does not take this worker's GPU; empty: it does. One that does not work, but
// should, is taken: its error is told, rather than a run 100 times slower started.
std::string reason_for_cpu(int ordinal) {
  const CudaDeviceInfo d = cuda_device(ordinal);
  return d.built_for ? "" : concat("cuda:", d.ordinal, " ", d.name, ": ", d.problem);
}

// All workers compute on GPUs, or none: with auto they find out together.
bool on_gpus(const Config& config, Communicator& comm, const std::string& launch) {
  if (config.device.kind == "cpu") return false;
  const std::string problem = cuda_problem();
  if (config.device.kind == "cuda") {
    ENSURE(problem.empty(), "device.kind is cuda, but ", problem);
    return true;
  }
  const std::string reason = problem.empty() ? reason_for_cpu(ordinal_of(comm, launch)) : problem;
  std::vector<double> without(static_cast<std::size_t>(comm.size()));
  without[static_cast<std::size_t>(comm.rank())] = reason.empty() ? 0 : 1;
  sum_over_ranks(comm, kBackendChannel, without, "which workers have a GPU");
  const Index count = std::ranges::count(without, 1.0);
  ENSURE(count == 0 || count == comm.size(), "device.kind is auto, but ", count, " of ",
         comm.size(),
         " workers have no GPU that this program was built for, the first of them worker ",
         std::ranges::find(without, 1.0) - without.begin(),
         "; leave their machines or GPUs out, or set device.kind to cpu",
         reason.empty() ? "" : concat(". Worker ", comm.rank(), ": ", reason));
  if (count > 0 && problem.empty() && comm.rank() == 0)
    log_warning("device.kind is auto: computing on the CPU, for ", reason);
  return count == 0;
}

// NCCL counts each GPU once; without this check its ranks would wait for each other.
void check_one_each(const Communicator& comm, DeviceTransport transport,
                    const std::string& launch) {
  const Index devices = cuda_device_count();
  ENSURE(transport != DeviceTransport::Nccl || launch != "local" || comm.size() <= devices,
         "parallel.transport is nccl, which takes one worker per GPU, and there are ", comm.size(),
         " workers and ", devices, " GPUs (CUDA_VISIBLE_DEVICES counts); set it to auto");
}

// What is timed is kept beside the log, so that a run that resumes computes as before.
CudaOpsSettings ops_settings(const Config& config, int rank) {
  CudaOpsSettings settings;
  if (!config.device.tune) return settings;
  settings.autotune_matmul = true;
  settings.epilogues = settings.attention = CudaImplementation::Autotuned;
  if (!config.log.directory.empty())
    settings.autotune_cache =
        (Path(config.log.directory) / "autotune" / concat("rank-", rank)).string();
  return settings;
}

// Once all that is made beside the worker's own memory exists, and before anybody takes that.
void check_room(const Config& config, const Programs& programs, Communicator& comm,
                const CudaDevice& device, const std::string& launch) {
  std::vector<int> ranks{comm.rank()};
  if (launch == "local") {
    ranks.clear();
    for (int rank = device.ordinal(); rank < comm.size(); rank += cuda_device_count())
      ranks.push_back(rank);
  }
  barrier(comm, kBackendChannel, "the start of all devices");
  check_memory(config, programs, ranks, cuda_device(device.ordinal()).free_bytes, device.name());
  barrier(comm, kBackendChannel, "the look at all devices' memory");
}

DeviceTransport transport_for(const Config& config, const std::string& launch) {
  const std::string& wanted = config.parallel.transport;
  if (wanted == "nccl") return DeviceTransport::Nccl;
  if (launch == "local") return DeviceTransport::Copies;
  if (wanted == "mpi" || !nccl_built()) return DeviceTransport::Staged;
  return DeviceTransport::Nccl;
}

}  // namespace

Backend host_backend() { return {make_host_device(), make_half_ops(make_cpu_ops()), nullptr, {}}; }
Backend planning_backend() { return {make_planning_device(), make_cpu_ops(), nullptr, {}}; }

Backend make_backend(const Config& config, const Programs& programs, Communicator& comm) {
  const std::string launch = choose_transport(config);
  if (!on_gpus(config, comm, launch)) return host_backend();
  const DeviceTransport transport = transport_for(config, launch);
  check_one_each(comm, transport, launch);
  auto device = make_cuda_device(ordinal_of(comm, launch));
  if (launch != "local") {
    refuse_sharing(comm, *device);
    pin_near(bus_of(*device));
  }
  auto ops = make_cuda_ops(*device, ops_settings(config, comm.rank()));
  if (config.parallel.gpu_aware_mpi && transport == DeviceTransport::Staged &&
      !mpi_takes_gpu_memory())
    FailUsage("parallel.gpu_aware_mpi is true, but ", mpi_library(),
              " says that it cannot be given pointers to GPU memory; set it to false (messages are "
              "then staged through the host), or load an MPI built for CUDA");
  if (transport == DeviceTransport::Nccl && comm.rank() == 0)
    if (const std::string warning = gpu_aware_mpi_warning(); !warning.empty()) log_warning(warning);
  auto tensors = make_device_communicator(transport, comm, *device,
                                          {.peers = peers_of(programs, comm.rank()),
                                           .members = members_of(programs, comm.rank()),
                                           .deadline_seconds = config.parallel.timeout_seconds,
                                           .gpu_aware = config.parallel.gpu_aware_mpi});
  check_room(config, programs, comm, *device, launch);
  Backend backend;
  backend.description =
      concat("device: ", device->name(), "; messages: ", tensors->transport(), "\n");
  backend.identity = concat(cuda_device(device->ordinal()).name, ", ", cuda_matmul_library());
  backend.device = std::move(device);
  backend.autotuned = [chosen = ops.get()] { return chosen->describe(); };
  backend.ops = std::move(ops);
  backend.tensors = std::move(tensors);
  return backend;
}

}  // namespace chimera
