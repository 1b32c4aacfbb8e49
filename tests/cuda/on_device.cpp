#include "on_device.h"

#include <algorithm>
#include <map>

namespace chimera::test {
namespace {

Tensor with_data(const Tensor& t, void* data) {
  switch (t.rank()) {
    case 1: return Tensor(data, t.type(), {t.dim(0)});
    case 2: return Tensor(data, t.type(), {t.dim(0), t.dim(1)});
    case 3: return Tensor(data, t.type(), {t.dim(0), t.dim(1), t.dim(2)});
    default: return Tensor(data, t.type(), {t.dim(0), t.dim(1), t.dim(2), t.dim(3)});
  }
}

// The tensors of one call on the device. Tensors that begin at the same number share memory there
// too.
class Copies {
 public:
  Copies(CudaDevice& device, std::span<const Tensor> tensors) : device_(device) {
    for (const Tensor& t : tensors)
      if (!t.empty()) copies_[t.raw()].bytes = std::max(copies_[t.raw()].bytes, t.bytes());
    for (auto& [host, copy] : copies_) {
      // The alignment too is the host's: kernels move 128 bits at once only where they may.
      copy.shift = static_cast<Index>(reinterpret_cast<std::uintptr_t>(host) % 16);
      copy.buffer = Buffer(device, copy.bytes + copy.shift);
      device.copy_in(copy.data(), host, copy.bytes);
    }
  }
  Tensor operator()(const Tensor& t) const {
    return t.empty() ? t : with_data(t, copies_.at(t.raw()).data());
  }
  void copy_out() {
    for (const auto& [host, copy] : copies_) device_.copy_out(host, copy.data(), copy.bytes);
  }

 private:
  struct Copy {
    Index bytes = 0, shift = 0;
    Buffer buffer;
    std::byte* data() const { return buffer.data() + shift; }
  };
  CudaDevice& device_;
  std::map<void*, Copy> copies_;
};

// Owns the device of the ops that it belongs to.
class OnDevice final : public OpInterceptor {
 public:
  explicit OnDevice(std::unique_ptr<CudaDevice> device) : device_(std::move(device)) {}
  std::unique_ptr<Ops> make_ops() {
    auto ops = make_cuda_ops(*device_);
    ops_ = ops.get();
    return ops;
  }
  void run(const OpCall& op, const std::function<void()>& call) override {
    std::vector<Tensor> host;
    for (const Operand& x : op.operands) host.push_back(*x.tensor);
    Copies on(*device_, host);
    for (const Operand& x : op.operands) *x.tensor = on(*x.tensor);
    call();
    ops_->check();
    on.copy_out();
    for (std::size_t i = 0; i < host.size(); ++i) *op.operands[i].tensor = host[i];
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  CudaOps* ops_ = nullptr;
};

}  // namespace

std::unique_ptr<Ops> make_on_device_ops() {
  auto on_device = std::make_unique<OnDevice>(make_cuda_device(0));
  auto ops = on_device->make_ops();
  ops->add_interceptor(std::move(on_device));
  return ops;
}

}  // namespace chimera::test
