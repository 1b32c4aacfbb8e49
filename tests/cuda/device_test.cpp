// The GPU as a Device, and errors that kernels find.
#include "kernels/kernel_support.h"
#include "on_device.h"

using namespace chimera;
using namespace chimera::test;

namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Floats read(CudaDevice& device, const Buffer& buffer) {
  Floats x(static_cast<std::size_t>(buffer.bytes()) / sizeof(float));
  device.copy_out(x.data(), buffer.data(), buffer.bytes());
  return x;
}

}  // namespace

TEST_CASE("cuda device: copies keep their order, whatever becomes of the host's memory") {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    CHECK(device->name().find("cuda:0 ") == 0);
    const Index n = 2'500'001;  // more than all staging memory at once
    const Floats x = random_floats(n, 1);
    Floats host = x;
    Buffer memory(*device, n * Index{sizeof(float)});
    device->copy_in(memory.data(), host.data(), memory.bytes());
    std::fill(host.begin(), host.end(), -1.0f);
    CHECK(read(*device, memory) == x);
    device->zero(memory.data(), memory.bytes());
    device->copy_in(memory.data(), x.data(), 12);
    Floats expected(x.size(), 0.0f);
    std::copy_n(x.begin(), 3, expected.begin());
    CHECK(read(*device, memory) == expected);
    device->copy_out(host.data(), memory.data(), 0);
    device->synchronize();
  });
}

TEST_CASE("cuda device: out of memory names the size and what is free, and changes nothing") {
  const auto device = make_cuda_device(0);
  const std::string message = message_of([&] { device->allocate(Index{1} << 50); });
  INFO(message);
  CHECK(message.find(std::to_string(Index{1} << 50) + " bytes on cuda:0") != std::string::npos);
  CHECK(message.find(" are free") != std::string::npos);
  const Buffer small(*device, 64);
  CHECK(reinterpret_cast<std::uintptr_t>(small.data()) % 64 == 0);
}

TEST_CASE("cuda device: a device that is not there is refused with how many are") {
  CHECK(message_of([] { make_cuda_device(99); }).find("GPU 99 was asked for, and there are ") == 0);
  CHECK(message_of([] { make_cuda_device(-1); }).find("GPU -1 ") == 0);
}

TEST_CASE("cuda ops: a bad id stops nothing, and is thrown once by the next check or sum") {
  for_every_order([] {
    const auto device = make_cuda_device(0);
    const auto ops = make_cuda_ops(*device);
    const Index R = 600, V = 9;
    Ids ids(static_cast<std::size_t>(R), 3);
    ids[599] = -7;
    ids[300] = 9;
    Floats logits = random_floats(R * V, 1);
    const auto on_device = [&](const void* host, Index bytes) {
      Buffer memory(*device, bytes);
      device->copy_in(memory.data(), host, bytes);
      return memory;
    };
    const Buffer d_ids = on_device(ids.data(), R * 4),
                 d_logits = on_device(logits.data(), R * V * 4);
    const Buffer d_losses(*device, R * 4);
    const Tensor x(d_logits.data(), DType::F32, {R, V}), losses(d_losses.data(), DType::F32, {R});
    const Tensor targets(d_ids.data(), DType::I32, {R});
    const auto go = [&] { ops->cross_entropy(losses, x, targets, 0, 1, Gradient::None); };
    go();
    go();
    const std::string message = message_of([&] { ops->check(); });
    CHECK(message.find("cross_entropy: row 300 of targets is 9, outside the vocabulary of 9") == 0);
    ops->check();
    go();
    CHECK(message_of([&] { ops->sum_squares(losses); }) == message);
    // The row with the bad id has the loss of id 0, all others their own.
    CHECK(std::isfinite(ops->sum_squares(losses)));
  });
}
