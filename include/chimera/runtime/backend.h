#pragma once
// What a worker computes with: the host's memory and the CPU's ops, or a GPU, its ops, and messages
// between memories of GPUs.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chimera/comm/device_transport.h"
#include "chimera/ops/ops.h"
#include "chimera/setup/programs.h"

namespace chimera {

struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  // Carries messages of the device's memory; null: the worker's own endpoint does.
  std::unique_ptr<DeviceCommunicator> tensors;
  std::string description;  // a line per part, for the start of a run
  // What the last bits of results depend on, for manifests: "cpu"; "NVIDIA H200, cuBLASLt 13.1.0".
  std::string identity = "cpu";
  // What autotuning has chosen until now, a line each; may be empty.
  std::function<std::vector<std::string>()> autotuned;
  bool on_gpu() const { return tensors != nullptr; }
};
Backend host_backend();
Backend planning_backend();  // without memory: nothing may be computed

// Called by every worker at once. On GPUs: the one of this rank on its node, by the launcher's
// local rank among the devices that the process sees; workers that are threads of one process take
// turns. device.kind auto: on GPUs where the program was built for those of all workers, on the CPU
// where for none. Errors say what is missing; ranks that would share a GPU are refused, both named.
Backend make_backend(const Config& config, const Programs& programs, Communicator& comm);

}  // namespace chimera
