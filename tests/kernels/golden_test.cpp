// Every op against PyTorch's float64 values. Sizes come from the names of the cases.
#include <cstdio>

#include "kernel_support.h"
#include "support/safetensors_read.h"

using namespace chimera;
using namespace chimera::test;

namespace {

using References = std::map<std::string, Reference>;

// Runs body(case name, references of the case without the prefix) for every case of an op.
template <class Body>
void for_cases(const std::string& op, const Body& body) {
  const References all = read_references(golden_folder() / "ops.safetensors");
  std::map<std::string, References> cases;
  for (const auto& [name, reference] : all)
    if (name.rfind(op, 0) == 0) {
      const auto dot = name.rfind('.');
      cases[name.substr(0, dot)][name.substr(dot + 1)] = reference;
    }
  REQUIRE(!cases.empty());
  for (auto& [name, references] : cases) {
    INFO(name);
    on_every_machine([&](Ops& ops) { body(ops, name, references); });
  }
}

Floats zeros(std::size_t n) { return Floats(n, 0.0f); }

}  // namespace

TEST_CASE("golden: linear forward and backward", "[golden]") {
  for_cases("linear_", [](Ops& ops, const std::string& name, References& r) {
    long R = 0, in = 0, out = 0;
    REQUIRE(std::sscanf(name.c_str(), "linear_%ldx%ldx%ld", &R, &in, &out) == 3);
    Floats x = r["x"].f32(), w = r["weight"].f32(), b = r["bias"].f32(), dy = r["d_out"].f32();
    Floats y = zeros(dy.size()), dx = zeros(x.size()), dw = zeros(w.size()), db = zeros(b.size());
    ops.matmul(tensor(y, {R, out}), tensor(x, {R, in}), Transpose::No, tensor(w, {in, out}),
               Transpose::No, Write::Set, tensor(b, {out}));
    ops.matmul(tensor(dx, {R, in}), tensor(dy, {R, out}), Transpose::No, tensor(w, {in, out}),
               Transpose::Yes, Write::Set);
    ops.matmul(tensor(dw, {in, out}), tensor(x, {R, in}), Transpose::Yes, tensor(dy, {R, out}),
               Transpose::No, Write::Add);
    ops.bias_backward(tensor(db, {out}), tensor(dy, {R, out}));
    CHECK(distance(y, r["out"].values) <= kFp32);
    CHECK(distance(dx, r["d_x"].values) <= kFp32);
    CHECK(distance(dw, r["d_weight"].values) <= kFp32);
    CHECK(distance(db, r["d_bias"].values) <= kFp32);
  });
}

TEST_CASE("golden: layernorm forward and backward", "[golden]") {
  for_cases("layernorm_", [](Ops& ops, const std::string& name, References& r) {
    long R = 0, C = 0;
    REQUIRE(std::sscanf(name.c_str(), "layernorm_%ldx%ld", &R, &C) == 2);
    Floats x = r["x"].f32(), gain = r["weight"].f32(), bias = r["bias"].f32(),
           dy = r["d_out"].f32();
    Floats y = zeros(x.size()), mean = zeros(static_cast<std::size_t>(R)), rstd = mean;
    Floats dx = y, dgain = zeros(gain.size()), dbias = dgain;
    const Tensor m = tensor(mean, {R}), s = tensor(rstd, {R}), rows = tensor(x, {R, C});
    ops.layernorm_forward(tensor(y, {R, C}), m, s, rows, tensor(gain, {C}), tensor(bias, {C}),
                          1e-5f);
    ops.layernorm_backward_input(tensor(dx, {R, C}), m, s, tensor(dy, {R, C}), rows,
                                 tensor(gain, {C}), Write::Set);
    ops.layernorm_backward_weight(tensor(dgain, {C}), tensor(dbias, {C}), m, s, tensor(dy, {R, C}),
                                  rows);
    CHECK(distance(y, r["out"].values) <= kFp32);
    CHECK(distance(dx, r["d_x"].values) <= kFp32);
    CHECK(distance(dgain, r["d_weight"].values) <= kFp32);
    CHECK(distance(dbias, r["d_bias"].values) <= kFp32);
  });
}

TEST_CASE("golden: gelu forward and backward", "[golden]") {
  for_cases("gelu", [](Ops& ops, const std::string&, References& r) {
    Floats x = r["x"].f32(), dy = r["d_out"].f32(), y = zeros(x.size()), dx = y;
    const Index n = static_cast<Index>(x.size());
    ops.gelu_forward(tensor(y, {n}), tensor(x, {n}));
    ops.gelu_backward(tensor(dx, {n}), tensor(dy, {n}), tensor(x, {n}));
    CHECK(distance(y, r["out"].values) <= kFp32);
    CHECK(distance(dx, r["d_x"].values) <= kFp32);
  });
}

TEST_CASE("golden: attention forward and backward", "[golden]") {
  for_cases("attention_", [](Ops& ops, const std::string& name, References& r) {
    long B = 0, H = 0, T = 0, head = 0;
    REQUIRE(std::sscanf(name.c_str(), "attention_%ldx%ldx%ldx%ld", &B, &H, &T, &head) == 4);
    const Index C = H * head;
    Floats qkv = r["qkv"].f32(), dout = r["d_out"].f32();
    Floats out = zeros(dout.size()), dqkv = zeros(qkv.size());
    Floats lse = zeros(static_cast<std::size_t>(B * H * T)), delta = lse;
    ops.attention_forward(tensor(out, {B, T, C}), tensor(lse, {B, H, T}), tensor(qkv, {B, T, 3, C}),
                          H, {});
    ops.attention_backward(tensor(dqkv, {B, T, 3, C}), tensor(delta, {B, H, T}),
                           tensor(dout, {B, T, C}), tensor(out, {B, T, C}), tensor(lse, {B, H, T}),
                           tensor(qkv, {B, T, 3, C}), H, {});
    CHECK(distance(out, r["out"].values) <= kFp32);
    CHECK(distance(dqkv, r["d_qkv"].values) <= kFp32);
  });
}

TEST_CASE("golden: cross entropy and its gradient", "[golden]") {
  for_cases("cross_entropy_", [](Ops& ops, const std::string& name, References& r) {
    long R = 0, V = 0;
    double smoothing = 0;
    REQUIRE(std::sscanf(name.c_str(), "cross_entropy_%ldx%ld_ls%lf", &R, &V, &smoothing) == 3);
    Floats logits = r["logits"].f32(), losses = zeros(static_cast<std::size_t>(R));
    Ids targets = r["targets"].i32();
    // The incoming gradient differs from row to row; the op takes one scale per call.
    for (Index row = 0; row < R; ++row)
      ops.cross_entropy(tensor(losses, {R}).rows(row, 1), tensor(logits, {R, V}).rows(row, 1),
                        tensor(targets, {R}).rows(row, 1), static_cast<float>(smoothing),
                        static_cast<float>(r["d_out"].values[static_cast<std::size_t>(row)]),
                        Gradient::InPlace);
    CHECK(distance(losses, r["out"].values) <= kFp32);
    CHECK(distance(logits, r["d_logits"].values) <= kFp32);
  });
}

// Softmax has no op of its own: the loss of a row against target j is -log of its j-th probability.
TEST_CASE("golden: softmax through cross entropy", "[golden]") {
  for_cases("softmax_", [](Ops& ops, const std::string&, References& r) {
    const Index R = r["x"].shape[0], V = r["x"].shape[1];
    Floats p(static_cast<std::size_t>(R * V));
    for (Index j = 0; j < V; ++j) {
      Floats x = r["x"].f32(), losses = zeros(static_cast<std::size_t>(R));
      Ids targets(static_cast<std::size_t>(R), static_cast<std::int32_t>(j));
      ops.cross_entropy(tensor(losses, {R}), tensor(x, {R, V}), tensor(targets, {R}), 0, 1,
                        Gradient::None);
      for (Index i = 0; i < R; ++i)
        p[static_cast<std::size_t>(i * V + j)] = std::exp(-losses[static_cast<std::size_t>(i)]);
    }
    CHECK(distance(p, r["out"].values) <= kFp32);
  });
}
