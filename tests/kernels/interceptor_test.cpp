// What interceptors of ops see, on every backend alike.
#include "chimera/ops/op_times.h"
#include "kernel_support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// Writes down each call before and after it; may want composite ops in parts, may stop a call.
class Recorder final : public OpInterceptor {
 public:
  Recorder(std::string who, std::vector<std::string>& seen, bool decompose)
      : who_(std::move(who)), seen_(seen), decompose_(decompose) {}
  void run(const OpCall& op, const std::function<void()>& call) override {
    seen_.push_back(who_ + " " + op.name);
    if (fail_) Fail("stopped");
    call();
    seen_.push_back(who_ + " end");
  }
  bool decomposes(std::span<const Operand>) const override { return decompose_; }
  void fail(bool fail) { fail_ = fail; }

 private:
  std::string who_;
  std::vector<std::string>& seen_;
  bool decompose_, fail_ = false;
};

struct Linear {
  Floats x = random_floats(6, 1), w = random_floats(12, 2), bias = random_floats(4, 3);
  Floats pre = Floats(8), gelu = Floats(8);
  void run(Ops& ops) {
    ops.linear_gelu_forward(tensor(gelu, {2, 4}), tensor(pre, {2, 4}), tensor(x, {2, 3}),
                            tensor(w, {3, 4}), tensor(bias, {4}));
  }
};

}  // namespace

TEST_CASE("interceptors: the last one added is outermost; parts of a composite op pass unseen") {
  const auto ops = test_ops();
  std::vector<std::string> seen;
  ops->add_interceptor(std::make_unique<Recorder>("a", seen, false));
  ops->add_interceptor(std::make_unique<Recorder>("b", seen, false));
  Linear linear;
  linear.run(*ops);
  CHECK(seen == std::vector<std::string>{"b linear gelu forward", "a linear gelu forward", "a end",
                                         "b end"});
}

TEST_CASE("interceptors: one that decomposes sees the parts, and so do the others") {
  const auto ops = test_ops(), plain = test_ops();
  std::vector<std::string> seen;
  ops->add_interceptor(std::make_unique<Recorder>("a", seen, true));
  ops->add_interceptor(std::make_unique<Recorder>("b", seen, false));
  Linear linear, expected;
  linear.run(*ops);
  expected.run(*plain);
  CHECK(seen == std::vector<std::string>{"b matmul", "a matmul", "a end", "b end", "b gelu forward",
                                         "a gelu forward", "a end", "b end"});
  CHECK(distance(linear.gelu, widen(expected.gelu)) < kFp32);
}

TEST_CASE("interceptors: after an error the next call passes through them again") {
  const auto ops = test_ops();
  std::vector<std::string> seen;
  auto owned = std::make_unique<Recorder>("a", seen, false);
  Recorder& recorder = *owned;
  ops->add_interceptor(std::move(owned));
  Linear linear;
  recorder.fail(true);
  CHECK_THROWS_AS(linear.run(*ops), Error);
  recorder.fail(false);
  seen.clear();
  linear.run(*ops);
  CHECK(seen.size() == 2);
}

TEST_CASE("interceptors: what breaks the contract is refused before they see it") {
  const auto ops = test_ops();
  std::vector<std::string> seen;
  ops->add_interceptor(std::make_unique<Recorder>("a", seen, false));
  Floats x(4), y(5);
  CHECK_THROWS_AS(ops->gelu_forward(tensor(y, {5}), tensor(x, {4})), Error);
  CHECK(seen.empty());
}

TEST_CASE("op timer: calls, seconds and floating-point operations by op, composite ops in parts") {
  const auto ops = test_ops();
  std::map<std::string, OpTime> times;
  ops->add_interceptor(make_op_timer(times));
  Linear linear;
  for (int i = 0; i < 3; ++i) linear.run(*ops);
  REQUIRE(times.size() == 2);
  CHECK(times["matmul"].calls == 3);
  CHECK(times["matmul"].flops == 3 * 2.0 * 2 * 4 * 3);  // 2 M N K
  CHECK(times["matmul"].seconds > 0);
  CHECK(times["gelu forward"].calls == 3);
  CHECK(times["gelu forward"].flops == 0);
}
