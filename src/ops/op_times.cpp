#include "chimera/ops/op_times.h"

#include <chrono>

namespace chimera {
namespace {

class OpTimer final : public OpInterceptor {
 public:
  explicit OpTimer(std::map<std::string, OpTime>& times) : times_(times) {}

  void run(const OpCall& op, const std::function<void()>& call) override {
    const auto start = std::chrono::steady_clock::now();
    call();
    OpTime& time = times_[op.name];
    time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    time.flops += op.flops;
    ++time.calls;
  }
  bool decomposes(std::span<const Operand>) const override { return true; }

 private:
  std::map<std::string, OpTime>& times_;
};

}  // namespace

std::unique_ptr<OpInterceptor> make_op_timer(std::map<std::string, OpTime>& times) {
  return std::make_unique<OpTimer>(times);
}

}  // namespace chimera
