// 16-bit storage on the CPU: every op is the fp32 op on widened numbers, its results rounded once.
#include "chimera/ops/half_ops.h"

#include <deque>
#include <map>

#include "chimera/tensor/half.h"
#include "kernel_support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

constexpr DType kTypes[] = {DType::BF16, DType::F16};

// The arrays of one call: those that are stored in the type under test, those that stay fp32. The
// same call can be made with both kinds in fp32.
class Arrays {
 public:
  Arrays(DType type, bool wide) : type_(type), wide_(wide) {}

  // Numbers that the type has, the same in both ways.
  Tensor stored(std::initializer_list<Index> shape) {
    Index n = 1;
    for (const Index extent : shape) n *= extent;
    Floats numbers = random_floats(n, ++seed_);
    std::vector<std::uint16_t>& bits = narrow_.emplace_back(numbers.size());
    const Tensor narrow(bits.data(), type_, shape);
    round_into(narrow, numbers.data());
    chimera::widen(numbers.data(), narrow);
    wide_numbers_.push_back(std::move(numbers));
    return wide_ ? tensor(wide_numbers_.back(), shape) : narrow;
  }
  Tensor fp32(std::initializer_list<Index> shape) {
    Index n = 1;
    for (const Index extent : shape) n *= extent;
    fp32_.push_back(random_floats(n, ++seed_));
    return tensor(fp32_.back(), shape);
  }
  Tensor ids(Index n, Index below) {
    ids_.push_back(random_ids(n, below, ++seed_));
    return tensor(ids_.back(), {n});
  }
  // Every array, in the order of their making: 16-bit ones rounded where they were fp32.
  std::vector<std::vector<std::uint16_t>> results() {
    std::vector<std::vector<std::uint16_t>> out = {narrow_.begin(), narrow_.end()};
    for (std::size_t i = 0; wide_ && i < out.size(); ++i)
      round_into(Tensor(out[i].data(), type_, {std::ssize(out[i])}), wide_numbers_[i].data());
    return out;
  }
  std::vector<Floats> statistics() const { return {fp32_.begin(), fp32_.end()}; }

 private:
  DType type_;
  bool wide_;
  std::uint64_t seed_ = 0;
  std::deque<std::vector<std::uint16_t>> narrow_;
  std::deque<Floats> wide_numbers_, fp32_;
  std::deque<Ids> ids_;
};

using Call = std::function<void(Ops&, Arrays&)>;
constexpr Index kB = 3, kT = 11, kH = 2, kC = 34, kR = kB * kT, kV = 70;
const Dropout kDropout{0.3f, 5, 9, 2, DropoutSite::Embedding};

std::map<std::string, Call> matmul_calls() {
  std::map<std::string, Call> calls;
  const auto no = Transpose::No, yes = Transpose::Yes;
  calls["matmul with bias"] = [=](Ops& ops, Arrays& a) {
    ops.matmul(a.stored({kR, 50}), a.stored({kR, kC}), no, a.stored({kC, 50}), no, Write::Set,
               a.stored({50}));
  };
  calls["matmul, added"] = [=](Ops& ops, Arrays& a) {
    ops.matmul(a.stored({kR, 50}), a.stored({kR, kC}), no, a.stored({50, kC}), yes, Write::Add);
  };
  calls["matmul into an fp32 gradient"] = [=](Ops& ops, Arrays& a) {
    ops.matmul(a.fp32({kC, 50}), a.stored({kR, kC}), yes, a.stored({kR, 50}), no, Write::Add);
  };
  calls["bias_backward"] = [=](Ops& ops, Arrays& a) {
    ops.bias_backward(a.fp32({kC}), a.stored({kR, kC}));
  };
  calls["embedding_forward"] = [=](Ops& ops, Arrays& a) {
    ops.embedding_forward(a.stored({kR, kC}), a.ids(kR, kV), a.stored({kV, kC}),
                          a.stored({kT + 1, kC}), kT, kDropout);
  };
  calls["embedding_backward"] = [=](Ops& ops, Arrays& a) {
    ops.embedding_backward(a.fp32({kV, kC}), a.fp32({kT, kC}), a.stored({kR, kC}), a.ids(kR, kV),
                           kT, kDropout);
  };
  return calls;
}

std::map<std::string, Call> row_calls() {
  std::map<std::string, Call> calls;
  calls["layernorm_forward"] = [](Ops& ops, Arrays& a) {
    ops.layernorm_forward(a.stored({kR, kC}), a.fp32({kR}), a.fp32({kR}), a.stored({kR, kC}),
                          a.stored({kC}), a.stored({kC}), 1e-5f);
  };
  for (const Write mode : {Write::Set, Write::Add})
    calls[mode == Write::Set ? "layernorm_backward_input" : "layernorm_backward_input, added"] =
        [mode](Ops& ops, Arrays& a) {
          ops.layernorm_backward_input(a.stored({kR, kC}), a.fp32({kR}), a.fp32({kR}),
                                       a.stored({kR, kC}), a.stored({kR, kC}), a.stored({kC}),
                                       mode);
        };
  calls["layernorm_backward_input, dx is x"] = [](Ops& ops, Arrays& a) {
    const Tensor x = a.stored({kR, kC});
    ops.layernorm_backward_input(x, a.fp32({kR}), a.fp32({kR}), a.stored({kR, kC}), x,
                                 a.stored({kC}), Write::Set);
  };
  calls["layernorm_backward_weight"] = [](Ops& ops, Arrays& a) {
    ops.layernorm_backward_weight(a.fp32({kC}), a.fp32({kC}), a.fp32({kR}), a.fp32({kR}),
                                  a.stored({kR, kC}), a.stored({kR, kC}));
  };
  calls["gelu_forward"] = [](Ops& ops, Arrays& a) {
    ops.gelu_forward(a.stored({kR, kC}), a.stored({kR, kC}));
  };
  calls["gelu_forward in place"] = [](Ops& ops, Arrays& a) {
    const Tensor x = a.stored({kR, kC});
    ops.gelu_forward(x, x);
  };
  calls["gelu_backward"] = [](Ops& ops, Arrays& a) {
    ops.gelu_backward(a.stored({kR, kC}), a.stored({kR, kC}), a.stored({kR, kC}));
  };
  calls["gelu_backward, dx is dy"] = [](Ops& ops, Arrays& a) {
    const Tensor dy = a.stored({kR, kC});
    ops.gelu_backward(dy, dy, a.stored({kR, kC}));
  };
  for (const bool gradient : {false, true})
    calls[gradient ? "cross_entropy with its gradient" : "cross_entropy"] = [gradient](Ops& ops,
                                                                                       Arrays& a) {
      ops.cross_entropy(a.fp32({kR}), a.stored({kR, kV}), a.ids(kR, kV), 0.1f, 0.5f,
                        gradient ? Gradient::InPlace : Gradient::None);
    };
  return calls;
}

std::map<std::string, Call> sample_calls() {
  std::map<std::string, Call> calls;
  calls["attention_forward"] = [](Ops& ops, Arrays& a) {
    ops.attention_forward(a.stored({kB, kT, kC}), a.fp32({kB, kH, kT}), a.stored({kB, kT, 3, kC}),
                          kH, kDropout);
  };
  calls["attention_backward"] = [](Ops& ops, Arrays& a) {
    ops.attention_backward(a.stored({kB, kT, 3, kC}), a.fp32({kB, kH, kT}), a.stored({kB, kT, kC}),
                           a.stored({kB, kT, kC}), a.fp32({kB, kH, kT}), a.stored({kB, kT, 3, kC}),
                           kH, kDropout);
  };
  calls["attention_cached"] = [](Ops& ops, Arrays& a) {
    ops.attention_cached(a.stored({3, kC}), a.stored({20, kC}), a.stored({20, kC}),
                         a.stored({3, 3, kC}), 10, kH);
  };
  calls["residual_forward"] = [](Ops& ops, Arrays& a) {
    ops.residual_forward(a.stored({kB, kT, kC}), a.stored({kB, kT, kC}), a.stored({kB, kT, kC}),
                         kDropout);
  };
  calls["residual_forward, out is branch"] = [](Ops& ops, Arrays& a) {
    const Tensor branch = a.stored({kB, kT, kC});
    ops.residual_forward(branch, a.stored({kB, kT, kC}), branch, kDropout);
  };
  calls["residual_backward"] = [](Ops& ops, Arrays& a) {
    ops.residual_backward(a.stored({kB, kT, kC}), a.stored({kB, kT, kC}), kDropout);
  };
  calls["residual_backward in place"] = [](Ops& ops, Arrays& a) {
    const Tensor dout = a.stored({kB, kT, kC});
    ops.residual_backward(dout, dout, kDropout);
  };
  return calls;
}

std::map<std::string, Call> all_calls() {
  std::map<std::string, Call> calls = matmul_calls();
  calls.merge(row_calls());
  calls.merge(sample_calls());
  return calls;
}

}  // namespace

TEST_CASE("16-bit ops are the fp32 ops on widened numbers, rounded once, in place or not") {
  const auto plain = make_cpu_ops();
  const auto narrow = make_half_ops(make_cpu_ops());
  for (const DType type : kTypes)
    for (const auto& [name, call] : all_calls()) {
      INFO(to_string(type) << " " << name);
      Arrays mine(type, false), reference(type, true);
      call(*narrow, mine);
      call(*plain, reference);
      CHECK(mine.results() == reference.results());
      CHECK(mine.statistics() == reference.statistics());
    }
}

TEST_CASE("fp32 calls pass through the 16-bit ops unchanged") {
  const auto plain = make_cpu_ops();
  const auto narrow = make_half_ops(make_cpu_ops());
  for (const auto& [name, call] : all_calls()) {
    INFO(name);
    Arrays a(DType::F16, true), b(DType::F16, true);
    call(*narrow, a);
    call(*plain, b);
    CHECK(a.results() == b.results());
    CHECK(a.statistics() == b.statistics());
  }
}

// Each part rounds, as it does when it is called alone.
TEST_CASE("16-bit ops that are several at once equal their parts bitwise") {
  const auto ops = make_half_ops(make_cpu_ops());
  using Pair = std::pair<Call, Call>;
  const Transpose no = Transpose::No, yes = Transpose::Yes;
  const std::map<std::string, Pair> pairs = {
      {"residual_layernorm_forward",
       {[](Ops& o, Arrays& a) {
          const Tensor y = a.stored({kB, kT, kC}), out = a.stored({kB, kT, kC});
          const Tensor mean = a.fp32({kR}), rstd = a.fp32({kR});
          const Tensor residual = a.stored({kB, kT, kC}), branch = a.stored({kB, kT, kC});
          const Tensor gain = a.stored({kC}), bias = a.stored({kC});
          o.residual_layernorm_forward(y.reshaped({kR, kC}), mean, rstd, out, residual, branch,
                                       gain, bias, 1e-5f, kDropout);
        },
        [](Ops& o, Arrays& a) {
          const Tensor y = a.stored({kB, kT, kC}), out = a.stored({kB, kT, kC});
          const Tensor mean = a.fp32({kR}), rstd = a.fp32({kR});
          const Tensor residual = a.stored({kB, kT, kC}), branch = a.stored({kB, kT, kC});
          const Tensor gain = a.stored({kC}), bias = a.stored({kC});
          o.residual_forward(out, residual, branch, kDropout);
          o.layernorm_forward(y.reshaped({kR, kC}), mean, rstd, out.reshaped({kR, kC}), gain, bias,
                              1e-5f);
        }}},
      {"linear_gelu_forward",
       {[](Ops& o, Arrays& a) {
          const Tensor gelu = a.stored({kR, 50}), pre = a.stored({kR, 50});
          const Tensor x = a.stored({kR, kC}), w = a.stored({kC, 50}), bias = a.stored({50});
          o.linear_gelu_forward(gelu, pre, x, w, bias);
        },
        [=](Ops& o, Arrays& a) {
          const Tensor gelu = a.stored({kR, 50}), pre = a.stored({kR, 50});
          const Tensor x = a.stored({kR, kC}), w = a.stored({kC, 50}), bias = a.stored({50});
          o.matmul(pre, x, no, w, no, Write::Set, bias);
          o.gelu_forward(gelu, pre);
        }}},
      {"linear_gelu_backward",
       {[](Ops& o, Arrays& a) {
          const Tensor dpre = a.stored({kR, kC}), dy = a.stored({kR, 50});
          const Tensor w = a.stored({kC, 50}), pre = a.stored({kR, kC});
          o.linear_gelu_backward(dpre, dy, w, pre);
        },
        [=](Ops& o, Arrays& a) {
          const Tensor dpre = a.stored({kR, kC}), dy = a.stored({kR, 50});
          const Tensor w = a.stored({kC, 50}), pre = a.stored({kR, kC});
          o.matmul(dpre, dy, no, w, yes, Write::Set);
          o.gelu_backward(dpre, dpre, pre);
        }}},
      {"linear_backward_weight",
       {[](Ops& o, Arrays& a) {
          const Tensor dw = a.fp32({kC, 50}), dbias = a.fp32({50});
          const Tensor x = a.stored({kR, kC}), dy = a.stored({kR, 50});
          o.linear_backward_weight(dw, dbias, x, dy);
        },
        [=](Ops& o, Arrays& a) {
          const Tensor dw = a.fp32({kC, 50}), dbias = a.fp32({50});
          const Tensor x = a.stored({kR, kC}), dy = a.stored({kR, 50});
          o.matmul(dw, x, yes, dy, no, Write::Add);
          o.bias_backward(dbias, dy);
        }}}};
  for (const DType type : kTypes)
    for (const auto& [name, pair] : pairs) {
      INFO(to_string(type) << " " << name);
      Arrays whole(type, false), parts(type, false);
      pair.first(*ops, whole);
      pair.second(*ops, parts);
      CHECK(whole.results() == parts.results());
      CHECK(whole.statistics() == parts.statistics());
    }
}

TEST_CASE("one call is of one 16-bit type, and its statistics are fp32") {
  const auto ops = make_half_ops(make_cpu_ops());
  Arrays bf16(DType::BF16, false), f16(DType::F16, false);
  const auto b = [&](std::initializer_list<Index> s) { return bf16.stored(s); };
  const auto h = [&](std::initializer_list<Index> s) { return f16.stored(s); };
  const auto f = [&](std::initializer_list<Index> s) { return bf16.fp32(s); };
  const Transpose no = Transpose::No;
  const std::vector<std::pair<std::string, std::function<void()>>> wrong = {
      {"matmul",
       [&] {
         ops->matmul(b({2, 2}), b({2, 2}), no, h({2, 2}), no, Write::Set);
       }},
      {"matmul",
       [&] {
         ops->matmul(b({2, 2}), f({2, 2}), no, f({2, 2}), no, Write::Set);
       }},
      {"bias",
       [&] {
         ops->matmul(b({2, 2}), b({2, 2}), no, b({2, 2}), no, Write::Set, f({2}));
       }},
      {"dbias",
       [&] {
         ops->bias_backward(b({2}), b({3, 2}));
       }},
      {"mean",
       [&] {
         ops->layernorm_forward(b({3, 2}), b({3}), f({3}), b({3, 2}), b({2}), b({2}), 1e-5f);
       }},
      {"gain",
       [&] {
         ops->layernorm_forward(b({3, 2}), f({3}), f({3}), b({3, 2}), f({2}), b({2}), 1e-5f);
       }},
      {"dgain",
       [&] {
         ops->layernorm_backward_weight(b({2}), f({2}), f({3}), f({3}), b({3, 2}), b({3, 2}));
       }},
      {"x", [&] { ops->gelu_forward(b({4}), f({4})); }},
      {"lse",
       [&] {
         ops->attention_forward(b({1, 3, 2}), b({1, 1, 3}), b({1, 3, 3, 2}), 1, {});
       }},
      {"residual",
       [&] {
         ops->residual_forward(b({1, 3, 2}), f({1, 3, 2}), b({1, 3, 2}), {});
       }},
      {"losses", [&] {
         ops->cross_entropy(b({3}), b({3, 5}), bf16.ids(3, 5), 0, 1, Gradient::None);
       }}};
  for (const auto& [what, call] : wrong) {
    std::string message;
    try {
      call();
    } catch (const Error& e) {
      message = e.what();
    }
    INFO(what << ": " << message);
    CHECK(message.find(what) != std::string::npos);
  }
}
