#include "matmul.h"

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "chimera/base/threads.h"

namespace chimera {
namespace cpu {
namespace {

using dnnl::memory;

// M, N, K, transpose_a, transpose_b, mode, has bias, team size (a primitive splits its work for the
// team it was made under).
using Key = std::array<Index, 8>;

struct Product {
  dnnl::matmul primitive;
  memory a, b, out, bias;
  memory::desc scratch;
};

memory::desc matrix(Index rows, Index columns, Transpose transpose) {
  return {{rows, columns},
          memory::data_type::f32,
          transpose == Transpose::No ? memory::dims{columns, 1} : memory::dims{1, rows}};
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

Product make_product(const dnnl::engine& engine, const Key& key) {
  const auto [M, N, K, transpose_a, transpose_b, mode, has_bias, team] = key;
  const auto a = matrix(M, K, static_cast<Transpose>(transpose_a));
  const auto b = matrix(K, N, static_cast<Transpose>(transpose_b));
  const auto out = matrix(M, N, Transpose::No);
  const auto bias = has_bias ? matrix(1, N, Transpose::No) : memory::desc();
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (static_cast<Write>(mode) == Write::Add) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  const auto desc = describe(engine, a, b, bias, out, attr);
  const auto unset = [&](const memory::desc& d) { return memory(d, engine, nullptr); };
  return {dnnl::matmul(desc),    unset(a), unset(b), unset(out), has_bias ? unset(bias) : memory(),
          desc.scratchpad_desc()};
}

}  // namespace

struct MatmulCache::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Product> products;
  std::vector<char> scratch;
};

MatmulCache::MatmulCache() : state_(std::make_unique<State>()) {}
MatmulCache::~MatmulCache() = default;

void MatmulCache::run(float* out, const float* a, Transpose transpose_a, const float* b,
                      Transpose transpose_b, Write mode, const float* bias, Index M, Index N,
                      Index K) try {
  State& s = *state_;
  const Key key{M,
                N,
                K,
                static_cast<Index>(transpose_a),
                static_cast<Index>(transpose_b),
                static_cast<Index>(mode),
                bias != nullptr,
                team_size()};
  auto found = s.products.find(key);
  if (found == s.products.end()) found = s.products.emplace(key, make_product(s.engine, key)).first;
  Product& p = found->second;
  const std::size_t need = p.scratch.get_size() + 64;
  if (s.scratch.size() < need) s.scratch.resize(need);
  void* scratch = s.scratch.data();
  std::size_t space = need;
  std::align(64, need - 64, scratch, space);
  // oneDNN takes pointers to mutable memory but only reads its sources.
  p.a.set_data_handle(const_cast<float*>(a));
  p.b.set_data_handle(const_cast<float*>(b));
  p.out.set_data_handle(out);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, p.a},
      {DNNL_ARG_WEIGHTS, p.b},
      {DNNL_ARG_DST, p.out},
      {DNNL_ARG_SCRATCHPAD, memory(p.scratch, s.engine, scratch)}};
  if (bias != nullptr) {
    p.bias.set_data_handle(const_cast<float*>(bias));
    arguments[DNNL_ARG_BIAS] = p.bias;
  }
  p.primitive.execute(s.stream, arguments);
  s.stream.wait();
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
