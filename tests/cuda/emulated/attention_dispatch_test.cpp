// When attention goes to cuDNN and when it does not, with a fake cuDNN that computes by our
// kernels: the emulator has no cuDNN.
#include "cuda/attention/attention_dispatch.h"

#include "../storage.h"

using namespace chimera;
using namespace chimera::test;
using cuda::AttentionCase;
using cuda::AttentionPass;

namespace {

struct Calls {
  int prepared = 0, forward = 0, backward = 0;
};

using Half = __nv_bfloat16;

// Has no plan for more than 64 tokens, and wants far too much memory for 50.
class FakeCudnn final : public cuda::CudnnAttention {
 public:
  FakeCudnn(CudaDevice& device, Calls& calls) : device_(device), calls_(calls) {}
  std::string version() const override { return "cuDNN 9.0.0"; }
  std::optional<Index> prepare(const AttentionCase& c, AttentionPass,
                               std::string& reason) override {
    ++calls_.prepared;
    reason = "no engine\nat all";
    if (c.T > 64) return std::nullopt;
    return c.T == 50 ? Index{1} << 40 : kWorkspace;
  }
  void forward(const AttentionCase& c, void* out, float* lse, const void* qkv,
               void* workspace) override {
    ++calls_.forward;
    use(workspace);
    const auto* q = static_cast<const Half*>(qkv);
    const AttentionShape s = shape_of(c);
    cuda::attention_forward(static_cast<Half*>(out), lse, q, q + s.out_row, q + 2 * s.out_row, s,
                            Mask{}, device_.stream());
  }
  void backward(const AttentionCase& c, void* dqkv, const void* dout, const void* out,
                const float* lse, const void* qkv, void* workspace) override {
    ++calls_.backward;
    use(workspace);
    const auto* q = static_cast<const Half*>(qkv);
    auto* dq = static_cast<Half*>(dqkv);
    const AttentionShape s = shape_of(c);
    const Index C = s.out_row;
    cuda::attention_backward(dq, dq + C, dq + 2 * C, delta_.get(), static_cast<const Half*>(dout),
                             static_cast<const Half*>(out), lse, q, q + C, q + 2 * C, s, Mask{},
                             device_.stream());
  }

 private:
  static constexpr Index kWorkspace = 1000;
  static AttentionShape shape_of(const AttentionCase& c) {
    const Index C = c.H * c.head;
    return {c.B, c.H, c.T, c.head, 0, 3 * C, 3 * C, c.T * 3 * C, c.T * 3 * C, C};
  }
  void use(void* workspace) { device_.zero(workspace, kWorkspace); }

  CudaDevice& device_;
  Calls& calls_;
  Array<float> delta_{device_, Floats(10000)};
};

struct Bench {
  std::unique_ptr<CudaDevice> device = make_cuda_device(0);
  Calls calls;
  cuda::AutotuneCache cache;
  cuda::Autotuner autotuner;
  cuda::AttentionDispatch attention;
  int ours = 0;

  explicit Bench(CudaImplementation choice)
      : autotuner(device->stream(), CudaImplementation::Own, choice, cache),
        attention(choice, autotuner, std::make_unique<FakeCudnn>(*device, calls), "") {}

  struct Options {
    DType type = DType::BF16;
    Index T = 10, head = 32, shift = 0;  // shift: bytes that `out` stands off its alignment
    bool masked = false, in_place = false;
  };
  // What was called: cuDNN's forward and backward, ours.
  Calls run(const Options& o) {
    const Index B = 2, H = 3, C = H * o.head, rows = B * o.T;
    const Buffer memory(*device, (2 * 3 + 2) * rows * C * 4 + 64);
    const Array<float> lse(*device, Floats(static_cast<std::size_t>(B * H * o.T)));
    device->zero(memory.data(), memory.bytes());
    std::byte* at = memory.data();
    const auto take = [&](Index width) {
      std::byte* const from = at;
      at += rows * width * 4;
      return from;
    };
    const Tensor qkv(take(3 * C), o.type, {B, o.T, 3, C});
    const Tensor dqkv(o.in_place ? qkv.raw() : take(3 * C), o.type, {B, o.T, 3, C});
    const Tensor dout(take(C), o.type, {B, o.T, C}), out(take(C) + o.shift, o.type, {B, o.T, C});
    const Tensor l(lse.get(), DType::F32, {B, H, o.T});
    const Calls before = calls;
    ours = 0;
    const auto count = [&] { ++ours; };
    attention.forward(out, l, qkv, H, o.masked, count);
    attention.backward(dqkv, dout, out, l, qkv, H, o.masked, count);
    device->synchronize();
    return {calls.prepared - before.prepared, calls.forward - before.forward,
            calls.backward - before.backward};
  }
};

}  // namespace

TEST_CASE("cudnn: it computes what it can, from packed queries, keys and values") {
  Bench bench(CudaImplementation::Library);
  const Calls made = bench.run({});
  CHECK(made.forward == 1);
  CHECK(made.backward == 1);
  CHECK(bench.ours == 0);
  CHECK(bench.attention.describe() == "attention: cuDNN 9.0.0 where it can");
}

TEST_CASE("cudnn: dropout, fp32, odd heads, unaligned and overlapping memory are ours") {
  Bench bench(CudaImplementation::Library);
  for (const Bench::Options& o :
       {Bench::Options{.masked = true}, Bench::Options{.type = DType::F32},
        Bench::Options{.head = 20}, Bench::Options{.head = 136}, Bench::Options{.shift = 8}}) {
    const Calls made = bench.run(o);
    CHECK(made.prepared + made.forward + made.backward == 0);
    CHECK(bench.ours == 2);
  }
  const Calls made = bench.run({.in_place = true});
  CHECK(made.forward == 1);
  CHECK(made.backward == 0);
  CHECK(bench.ours == 1);
}

TEST_CASE("cudnn: where it has no plan, or no room for it, ours computes and the reason is said") {
  Bench bench(CudaImplementation::Library);
  for (int turn = 0; turn < 2; ++turn) {
    const Calls made = bench.run({.T = 65});
    CHECK(made.prepared == (turn == 0 ? 2 : 0));  // asked once
    CHECK(bench.ours == 2);
  }
  bench.run({.T = 50});
  CHECK(bench.ours == 2);
  CHECK_THAT(bench.attention.describe(),
             Catch::Contains("not forward BF16 B 2 H 3 T 65 head 32: no engine;") &&
                 Catch::Contains("T 50 head 32: it wants a workspace of 1099511627776 bytes"));
}

TEST_CASE("cudnn: nothing is timed, on any call, where only ours can compute it") {
  Bench bench(CudaImplementation::Autotuned);
  for (int turn = 0; turn < 2; ++turn) {
    bench.run({.T = 65});
    CHECK(bench.ours == 2);
  }
}

TEST_CASE("cudnn: a timing decides once for each pass and shape, and is told") {
  Bench bench(CudaImplementation::Autotuned);
  const Calls first = bench.run({});
  CHECK(first.forward > 1);  // timed
  CHECK(first.backward > 1);
  CHECK(bench.ours > 0);
  REQUIRE(bench.autotuner.lines().size() == 2);
  CHECK_THAT(bench.autotuner.lines()[0],
             Catch::StartsWith("attention forward BF16 B 2 H 3 T 10 head 32: ") &&
                 Catch::Contains("cuDNN ") && Catch::Contains(" ms, ours "));
  // The fake for ours does nothing, which is hard to beat.
  const Calls second = bench.run({});
  CHECK(second.forward + second.backward == 0);
  CHECK(bench.ours == 2);
  CHECK(bench.autotuner.lines().size() == 2);
}

TEST_CASE("cudnn: a program without it says so") {
  std::string reason;
  CHECK(cuda::find_cudnn_attention(nullptr, reason) == nullptr);
  CHECK_THAT(reason, Catch::Contains("built without cuDNN"));
  const auto device = make_cuda_device(0);
  const auto ops = make_cuda_ops(*device, {.attention = CudaImplementation::Autotuned});
  CHECK_THAT(ops->describe()[1],
             Catch::StartsWith("attention: our kernels; cuDNN: built without cuDNN"));
}
