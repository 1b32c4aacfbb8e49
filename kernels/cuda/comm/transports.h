#pragma once
// The transports behind make_device_communicator(); copies are src/comm/copies.cpp.
#include "chimera/comm/device_transport.h"

namespace chimera {

// Adds on a stream of the device.
std::unique_ptr<Adder> make_cuda_adder(CudaDevice& device, Stream stream);

std::unique_ptr<DeviceCommunicator> make_staged_communicator(
    Communicator& host, CudaDevice& device, const DeviceTransportSettings& settings);
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator& host, CudaDevice& device,
                                                           const DeviceTransportSettings& settings);

}  // namespace chimera
