// Interceptors of ops: chimera/ops/op_interceptor.h.
#include "chimera/ops/ops.h"

#include <algorithm>

namespace chimera {

void Ops::add_interceptor(std::unique_ptr<OpInterceptor> interceptor) {
  interceptors_.push_back(std::move(interceptor));
}

bool Ops::decomposed(Operands operands) const {
  return std::ranges::any_of(interceptors_, [&](const auto& i) { return i->decomposes(operands); });
}

void Ops::run_through(std::size_t count, const OpCall& op, const std::function<void()>& call) {
  if (count == 0) return call();
  const auto inner = [&] { run_through(count - 1, op, call); };
  interceptors_[count - 1]->run(op, std::ref(inner));
}

void Ops::run_intercepted(const OpCall& op, const std::function<void()>& call) {
  struct Inside {
    explicit Inside(bool& flag) : flag_(flag) { flag_ = true; }
    ~Inside() { flag_ = false; }
    bool& flag_;
  } inside(inside_);
  run_through(interceptors_.size(), op, call);
}

}  // namespace chimera
