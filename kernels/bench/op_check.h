#pragma once
// A case computed by two backends from the same numbers, and compared.
#include "chimera/device/device.h"
#include "op_cases.h"

namespace chimera::bench {

// The memory of a case's operands on a device.
class Operands {
 public:
  Operands(Device& device, const OpCase& c) {
    for (const Operand& o : c.operands) {
      buffers_.emplace_back(device, std::max<Index>(o.like.bytes(), 1));
      tensors_.push_back(o.like.at(buffers_.back().data()));
    }
  }
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::vector<Buffer> buffers_;
  std::vector<Tensor> tensors_;
};

// What the operand starts with: the same for the same number. Host memory.
void fill(const Tensor& t, const Operand& operand, std::size_t number);

// Of results that two backends rounded each in its own way, relative.
double tolerance_of(DType type);

// Fills the operands, runs the case with `ops` on `device` and with `reference` on the host, and
// throws Error where an output differs. `on_device` then holds what the case left.
void check_case(const OpCase& c, Ops& ops, Ops& reference, Device& device,
                const Operands& on_device, double tolerance);

}  // namespace chimera::bench
