#include "every_op.h"

namespace chimera::test {

Floats every_op(Ops& ops) {
  const Index B = 3, T = 37, H = 2, head = 40, C = H * head, R = B * T, V = 500;
  const Dropout dropout{0.2f, 5, 9, 2, DropoutSite::Attention};
  Floats all;
  const auto keep = [&](const Floats& x) { all.insert(all.end(), x.begin(), x.end()); };
  Floats x = random_floats(R * C, 1), y(x.size()), d = random_floats(R * C, 2), dx(x.size());
  Floats mean(static_cast<std::size_t>(R)), rstd = mean, losses = mean;
  Floats gain = random_floats(C, 3), bias = random_floats(C, 4);
  Floats wte = random_floats(V * C, 5), wpe = random_floats(T * C, 6);
  Floats logits = random_floats(R * V, 7), qkv = random_floats(R * 3 * C, 8), dqkv(qkv.size());
  Floats lse(static_cast<std::size_t>(B * H * T)), delta = lse;
  Ids tokens = random_ids(R, V, 9);
  const Tensor m = tensor(mean, {R}), s = tensor(rstd, {R}), rows = tensor(x, {R, C});
  ops.layernorm_forward(tensor(y, {R, C}), m, s, rows, tensor(gain, {C}), tensor(bias, {C}), 1e-5f);
  ops.layernorm_backward_input(tensor(dx, {R, C}), m, s, tensor(d, {R, C}), rows, tensor(gain, {C}),
                               Write::Set);
  ops.layernorm_backward_weight(tensor(gain, {C}), tensor(bias, {C}), m, s, tensor(d, {R, C}),
                                rows);
  ops.bias_backward(tensor(bias, {C}), tensor(d, {R, C}));
  Floats dgain = random_floats(C, 11), dbias = random_floats(C, 12);
  ops.layernorm_backward(tensor(dx, {R, C}), tensor(dgain, {C}), tensor(dbias, {C}), m, s,
                         tensor(d, {R, C}), rows, tensor(gain, {C}), Write::Add);
  keep(y), keep(dx), keep(dgain), keep(dbias);
  ops.residual_layernorm_forward(tensor(dx, {R, C}), m, s, tensor(y, {B, T, C}),
                                 tensor(x, {B, T, C}), tensor(d, {B, T, C}), tensor(gain, {C}),
                                 tensor(bias, {C}), 1e-5f, dropout);
  keep(y), keep(dx), keep(gain), keep(bias);
  ops.attention_forward(tensor(y, {B, T, C}), tensor(lse, {B, H, T}), tensor(qkv, {B, T, 3, C}), H,
                        dropout);
  ops.attention_backward(tensor(dqkv, {B, T, 3, C}), tensor(delta, {B, H, T}), tensor(d, {B, T, C}),
                         tensor(y, {B, T, C}), tensor(lse, {B, H, T}), tensor(qkv, {B, T, 3, C}), H,
                         dropout);
  keep(y), keep(lse), keep(dqkv);
  ops.embedding_backward(tensor(wte, {V, C}), tensor(wpe, {T, C}), tensor(d, {R, C}),
                         tensor(tokens, {R}), T, dropout);
  ops.cross_entropy(tensor(losses, {R}), tensor(logits, {R, V}), tensor(tokens, {R}), 0.1f, 1,
                    Gradient::InPlace);
  ops.gelu_forward(tensor(y, {R * C}), tensor(x, {R * C}));
  keep(wte), keep(wpe), keep(losses), keep(logits), keep(y);
  ops.residual_forward(tensor(y, {B, T, C}), tensor(x, {B, T, C}), tensor(d, {B, T, C}), dropout);
  keep(y);
  Floats moment = random_floats(R * C, 10), squares(moment.size(), 1.0f);
  const AdamWTensor updated{.param = tensor(x, {R * C}),
                            .m = tensor(moment, {R * C}),
                            .v = tensor(squares, {R * C}),
                            .grad = tensor(d, {R * C}),
                            .weight = {},
                            .rate = 1e-2f,
                            .decay = 0.1f};
  ops.adamw({&updated, 1}, {});
  keep(x), keep(moment), keep(squares);
  all.push_back(static_cast<float>(ops.sum_squares(tensor(logits, {R, V}))));
  return all;
}

}  // namespace chimera::test
