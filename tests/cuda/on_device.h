#pragma once
// Ops over host tensors computed on a GPU: every call copies its tensors in, computes, and copies
// them out. So the tests of kernels/cpu (tests/kernels) are the tests of kernels/cuda.
#include <functional>

#include "chimera/ops/cuda_ops.h"

namespace chimera::test {

// Owns its device and ops. Errors that kernels find are thrown by the call that met them.
std::unique_ptr<Ops> make_on_device_ops();

// Runs body for every variant of the backend: on the emulator for several orders of threads, blocks
// and streams, on a GPU twice. Ops and devices made before or outlive a call must not be used in
// it.
void for_every_order(const std::function<void()>& body);

// Runs body on a machine with `count` devices, which the emulator becomes. Returns false, and does
// nothing, where a real machine has fewer.
bool on_devices(int count, const std::function<void()>& body);

}  // namespace chimera::test
