// What every op refuses, on every backend alike.
#include "references.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// The message of the Error that body throws.
std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ops refuse shapes that do not fit, naming both") {
  const auto ops = test_ops();
  Floats big(4096);
  Ids ids(64, 0);
  const auto f = [&](std::initializer_list<Index> shape) { return tensor(big, shape); };
  const auto i = [&](Index n) { return tensor(ids, {n}); };
  const Transpose no = Transpose::No, yes = Transpose::Yes;
  const std::vector<std::pair<std::string, std::function<void()>>> cases{
      {"(4, 5)",
       [&] {
         ops->matmul(f({2, 5}), f({2, 3}), no, f({4, 5}), no, Write::Set);
       }},
      {"(3, 2)'",
       [&] {
         ops->matmul(f({2, 5}), f({3, 2}), yes, f({4, 5}), no, Write::Set);
       }},
      {"bias",
       [&] {
         ops->matmul(f({2, 5}), f({2, 3}), no, f({3, 5}), no, Write::Set, f({4}));
       }},
      {"matrix",
       [&] {
         ops->matmul(f({2, 5}), f({6}), no, f({3, 5}), no, Write::Set);
       }},
      {"dbias",
       [&] {
         ops->bias_backward(f({4}), f({2, 5}));
       }},
      {"wpe",
       [&] {
         ops->embedding_forward(f({4, 8}), i(4), f({9, 8}), f({4, 7}), 2, {});
       }},
      {"positions",
       [&] {
         ops->embedding_forward(f({4, 8}), i(4), f({9, 8}), f({1, 8}), 2, {});
       }},
      {"tokens",
       [&] {
         ops->embedding_forward(f({4, 8}), i(5), f({9, 8}), f({2, 8}), 2, {});
       }},
      {"dwte",
       [&] {
         ops->embedding_backward(f({9, 7}), {}, f({4, 8}), i(4), 2, {});
       }},
      {"mean",
       [&] {
         ops->layernorm_forward(f({4, 8}), f({5}), f({4}), f({4, 8}), f({8}), f({8}), 1e-5f);
       }},
      {"gain",
       [&] {
         ops->layernorm_backward_input(f({4, 8}), f({4}), f({4}), f({4, 8}), f({4, 8}), f({9}),
                                       Write::Set);
       }},
      {"dgain",
       [&] {
         ops->layernorm_backward_weight(f({7}), f({8}), f({4}), f({4}), f({4, 8}), f({4, 8}));
       }},
      {"gelu", [&] { ops->gelu_forward(f({4}), f({5})); }},
      {"heads",
       [&] {
         ops->attention_forward(f({1, 4, 8}), f({1, 3, 4}), f({1, 4, 3, 8}), 3, {});
       }},
      {"lse",
       [&] {
         ops->attention_forward(f({1, 4, 8}), f({1, 3, 4}), f({1, 4, 3, 8}), 2, {});
       }},
      {"256",
       [&] {
         ops->attention_forward(f({1, 1, 300}), f({1}), f({1, 1, 3, 300}), 1, {});
       }},
      {"cache",
       [&] {
         ops->attention_cached(f({2, 8}), f({5, 8}), f({5, 8}), f({2, 3, 8}), 4, 2);
       }},
      {"residual",
       [&] {
         ops->residual_forward(f({1, 2, 3}), f({2, 3}).rows(0, 1), f({1, 2, 3}), {});
       }},
      {"probability",
       [&] {
         ops->residual_backward(f({1, 2, 3}), f({1, 2, 3}), Dropout{.probability = 1});
       }},
      {"losses",
       [&] {
         ops->cross_entropy(f({3}), f({4, 8}), i(4), 0, 1, Gradient::None);
       }},
      {"smoothing",
       [&] {
         ops->cross_entropy(f({4}), f({4, 8}), i(4), 2, 1, Gradient::None);
       }},
      {"adamw",
       [&] {
         const AdamWTensor x{
             .param = f({4}), .m = f({4}), .v = f({5}), .grad = f({4}), .weight = {}};
         ops->adamw({&x, 1}, {});
       }},
      {"F32", [&] { ops->sum_squares(i(4)); }}};
  for (const auto& [part, body] : cases) {
    const std::string message = refusal(body);
    INFO(part << ": " << message);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("ops refuse ids outside the vocabulary, naming row, id and size") {
  const auto ops = test_ops();
  Floats x(4 * 8), wte(9 * 8), wpe(4 * 8), losses(4), logits(4 * 9);
  for (const std::int32_t bad : {9, -1, INT32_MAX, INT32_MIN}) {
    Ids ids{0, 8, bad, 1};
    const std::vector<std::function<void()>> calls{
        [&] {
          ops->embedding_forward(tensor(x, {4, 8}), tensor(ids, {4}), tensor(wte, {9, 8}),
                                 tensor(wpe, {4, 8}), 4, {});
        },
        [&] {
          ops->embedding_backward(tensor(wte, {9, 8}), {}, tensor(x, {4, 8}), tensor(ids, {4}), 4,
                                  {});
        },
        [&] {
          ops->cross_entropy(tensor(losses, {4}), tensor(logits, {4, 9}), tensor(ids, {4}), 0, 1,
                             Gradient::InPlace);
        }};
    for (const auto& call : calls) {
      const std::string message = refusal(call);
      INFO(message);
      CHECK(message.find("row 2") != std::string::npos);
      CHECK(message.find("is " + std::to_string(bad)) != std::string::npos);
      CHECK(message.find("of 9") != std::string::npos);
    }
  }
}
