#include "matmul.h"

#include <algorithm>
#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "chimera/base/threads.h"

namespace chimera {
namespace cpu {
namespace {

using dnnl::memory;

// What makes two products alike. Rows of a stored matrix are `row_*` numbers apart. A primitive
// splits its work for the team that it was made under.
struct Shape {
  Index M, N, K;
  Index row_a, row_b, row_out;
  Transpose transpose_a, transpose_b;
  Write mode;
  bool bias;
  Index team;
  auto operator<=>(const Shape&) const = default;
};

// A primitive and its arguments, whose pointers are set before each run.
struct Product {
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
  Index scratch_bytes = 0;
};

memory::desc matrix(Index rows, Index columns, Index row, Transpose transpose) {
  return {{rows, columns},
          memory::data_type::f32,
          transpose == Transpose::No ? memory::dims{row, 1} : memory::dims{1, row}};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                      const memory::desc& b, const memory::desc& bias,
                                      const memory::desc& out, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  return bias.is_zero() ? dnnl::matmul::primitive_desc(engine, a, b, out, attr)
                        : dnnl::matmul::primitive_desc(engine, a, b, bias, out, attr);
#else
  const auto desc =
      bias.is_zero() ? dnnl::matmul::desc(a, b, out) : dnnl::matmul::desc(a, b, bias, out);
  return dnnl::matmul::primitive_desc(desc, attr, engine);
#endif
}

Product make_product(const dnnl::engine& engine, const Shape& s) {
  const auto a = matrix(s.M, s.K, s.row_a, s.transpose_a);
  const auto b = matrix(s.K, s.N, s.row_b, s.transpose_b);
  const auto out = matrix(s.M, s.N, s.row_out, Transpose::No);
  const auto bias = s.bias ? matrix(1, s.N, s.N, Transpose::No) : memory::desc();
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.mode == Write::Add) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  const auto desc = describe(engine, a, b, bias, out, attr);
  const auto unset = [&](const memory::desc& d) { return memory(d, engine, nullptr); };
  Product p{dnnl::matmul(desc),
            {{DNNL_ARG_SRC, unset(a)},
             {DNNL_ARG_WEIGHTS, unset(b)},
             {DNNL_ARG_DST, unset(out)},
             {DNNL_ARG_SCRATCHPAD, unset(desc.scratchpad_desc())}},
            static_cast<Index>(desc.scratchpad_desc().get_size())};
  if (s.bias) p.arguments[DNNL_ARG_BIAS] = unset(bias);
  return p;
}

// Sizes of the pieces that a product is computed in.
struct Pieces {
  Index M, N, K;
};

Index piece(Index size, Index most) {
  return std::min(size, round_up(ceil_div(size, ceil_div(size, most)), Index{64}));
}

// oneDNN 2.6 reads a large b that is not transposed 256 bytes per row, from more pages than the TLB
// holds (the likely cause), and runs at 50 to 70 % of the peak; in pieces of about 1,024 it reaches
// 75 to 85 % on a Zen 5 (kernels/bench/README.md). The split depends on the sizes alone, never on
// the team.
Pieces pieces_of(Index M, Index N, Index K, Transpose transpose_b) {
  if (transpose_b == Transpose::Yes || M < 32) return {M, N, K};
  return {M * N < Index{1} << 21 ? M : piece(M, 2048), piece(N, 1024),
          K * N < Index{1} << 20 ? K : piece(K, 1024)};
}

}  // namespace

struct MatmulCache::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Shape, Product> products;
  std::vector<char> memory;

  // At least `bytes`, aligned to a cache line; contents do not outlive the product.
  char* scratch(Index bytes) {
    constexpr std::uintptr_t kLine = 64;
    if (std::ssize(memory) < bytes + Index{kLine})
      memory.resize(static_cast<std::size_t>(bytes) + kLine);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (kLine - at % kLine) % kLine;
  }

  void run(const Shape& shape, float* out, const float* a, const float* b, const float* bias) {
    auto found = products.find(shape);
    if (found == products.end()) found = products.emplace(shape, make_product(engine, shape)).first;
    Product& p = found->second;
    const auto set = [&](int argument, const void* data) {
      // oneDNN takes pointers to mutable memory but only reads its sources.
      p.arguments[argument].set_data_handle(const_cast<void*>(data));
    };
    set(DNNL_ARG_SRC, a);
    set(DNNL_ARG_WEIGHTS, b);
    set(DNNL_ARG_DST, out);
    set(DNNL_ARG_SCRATCHPAD, scratch(p.scratch_bytes));
    if (bias != nullptr) set(DNNL_ARG_BIAS, bias);
    p.primitive.execute(stream, p.arguments);
    stream.wait();
  }
};

MatmulCache::MatmulCache() : state_(std::make_unique<State>()) {}
MatmulCache::~MatmulCache() = default;

void MatmulCache::run(float* out, const float* a, Transpose transpose_a, const float* b,
                      Transpose transpose_b, Write mode, const float* bias, Index M, Index N,
                      Index K) try {
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const Pieces size = pieces_of(M, N, K, transpose_b);
  const Index row_a = ta ? M : K, row_b = tb ? K : N;
  for (Index n = 0; n < N; n += size.N)
    for (Index m = 0; m < M; m += size.M)
      for (Index k = 0; k < K; k += size.K) {
        const float* bias_piece = bias == nullptr || k > 0 ? nullptr : bias + n;
        const Shape shape{std::min(size.M, M - m),
                          std::min(size.N, N - n),
                          std::min(size.K, K - k),
                          row_a,
                          row_b,
                          N,
                          transpose_a,
                          transpose_b,
                          k > 0 ? Write::Add : mode,
                          bias_piece != nullptr,
                          team_size()};
        state_->run(shape, out + m * N + n, a + (ta ? k * M + m : m * K + k),
                    b + (tb ? n * K + k : k * N + n), bias_piece);
      }
} catch (const dnnl::error& e) {
  Fail("oneDNN failed on a matrix product ", M, " x ", K, " x ", N, ": ", e.what());
}

}  // namespace cpu

std::string matmul_library() {
  const dnnl_version_t* v = dnnl_version();
  const char* runtime = v->cpu_runtime == DNNL_RUNTIME_OMP   ? "gomp"
                        : v->cpu_runtime == DNNL_RUNTIME_TBB ? "tbb"
                                                             : "sequential";
  return concat("oneDNN ", v->major, ".", v->minor, ".", v->patch, " (", runtime, ")");
}

}  // namespace chimera
