#pragma once
// What stands between a call of an op and the backend that computes it: sees every call as data,
// may replace its tensors, act before and after. Timing, ops over 16-bit tensors on the CPU, and
// tests are made of this.
#include <functional>
#include <span>

#include "chimera/tensor/tensor.h"

namespace chimera {

enum class Access {
  Read,
  Write,   // overwritten
  Update,  // read and written
  Native   // read or written, and every backend computes on its type as it is
};
struct Operand {
  Tensor* tensor;
  Access access;
  const char* name = "a tensor";  // for errors
};
inline Operand reads(Tensor& x, const char* name = "a tensor") { return {&x, Access::Read, name}; }
inline Operand writes(Tensor& x, const char* name = "a tensor") {
  return {&x, Access::Write, name};
}
inline Operand updates(Tensor& x) { return {&x, Access::Update}; }
inline Operand native(Tensor& x) { return {&x, Access::Native}; }

struct OpCall {
  const char* name;                   // "matmul", "layernorm backward"
  std::span<const Operand> operands;  // in the order of the method's parameters
  double flops = 0;                   // matrix products: 2 M N K
};

class OpInterceptor {
 public:
  virtual ~OpInterceptor() = default;
  // Runs `call` once. It reads the operands' tensors when it runs: those replaced before are put
  // back after it. Types and shapes have been checked.
  virtual void run(const OpCall& op, const std::function<void()>& call) = 0;
  // Whether a composite op over these is done as the ops that it consists of, each passing through
  // run() by itself.
  virtual bool decomposes(std::span<const Operand>) const { return false; }
};

}  // namespace chimera
