#include "matmul.h"

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

// M, N, K, transpose_a, transpose_b, mode, has bias, team size (a primitive splits its work for the
// team it was made under).
using Key = std::array<Index, 8>;

// A primitive and its arguments, whose pointers are set before each run.
struct Product {
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
  Index scratch_bytes = 0;
  // Where b is repacked first: from its plain layout to the one the primitive likes.
  dnnl::reorder repack;
  memory plain_b;
  Index packed_bytes = 0;  // 0: b is used where it lies
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

// A large b that is not transposed is read 256 bytes per row, from more pages than the TLB holds.
// Repacking it first made products of 1,024 rows 20 to 30 % faster on a Zen 5, and those of 256
// rows no faster (kernels/bench/README.md). The upper limit bounds the scratch memory to 64 MiB.
bool worth_repacking(Index M, Index N, Index K, Transpose transpose_b) {
  return transpose_b == Transpose::No && M >= 512 && K * N >= Index{1} << 20 &&
         K * N <= Index{1} << 24;
}

Product make_product(const dnnl::engine& engine, const Key& key) {
  const auto [M, N, K, transpose_a, transpose_b, mode, has_bias, team] = key;
  const auto a = matrix(M, K, static_cast<Transpose>(transpose_a));
  const auto b = matrix(K, N, static_cast<Transpose>(transpose_b));
  const auto out = matrix(M, N, Transpose::No);
  const auto bias = has_bias ? matrix(1, N, Transpose::No) : memory::desc();
  const bool repack = worth_repacking(M, N, K, static_cast<Transpose>(transpose_b));
  const memory::desc any({K, N}, memory::data_type::f32, memory::format_tag::any);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (static_cast<Write>(mode) == Write::Add) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  const auto desc = describe(engine, a, repack ? any : b, bias, out, attr);
  const auto unset = [&](const memory::desc& d) { return memory(d, engine, nullptr); };
  Product p{dnnl::matmul(desc),
            {{DNNL_ARG_SRC, unset(a)},
             {DNNL_ARG_WEIGHTS, unset(desc.weights_desc())},
             {DNNL_ARG_DST, unset(out)},
             {DNNL_ARG_SCRATCHPAD, unset(desc.scratchpad_desc())}},
            static_cast<Index>(desc.scratchpad_desc().get_size()),
            {},
            {},
            0};
  if (has_bias) p.arguments[DNNL_ARG_BIAS] = unset(bias);
  if (!repack) return p;
  p.plain_b = unset(b);
  p.repack = dnnl::reorder(p.plain_b, p.arguments[DNNL_ARG_WEIGHTS]);
  p.packed_bytes = static_cast<Index>(desc.weights_desc().get_size());
  return p;
}

}  // namespace

struct MatmulCache::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Product> products;
  std::vector<char> memory;

  // At least `bytes`, aligned to a cache line; contents do not outlive the product.
  char* scratch(Index bytes) {
    constexpr std::uintptr_t kLine = 64;
    if (std::ssize(memory) < bytes + Index{kLine})
      memory.resize(static_cast<std::size_t>(bytes) + kLine);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (kLine - at % kLine) % kLine;
  }
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
  char* packed_b = s.scratch(round_up(p.packed_bytes, Index{64}) + p.scratch_bytes);
  const auto set = [&](int argument, const void* data) {
    // oneDNN takes pointers to mutable memory but only reads its sources.
    p.arguments[argument].set_data_handle(const_cast<void*>(data));
  };
  set(DNNL_ARG_SRC, a);
  set(DNNL_ARG_DST, out);
  set(DNNL_ARG_SCRATCHPAD, packed_b + round_up(p.packed_bytes, Index{64}));
  if (bias != nullptr) set(DNNL_ARG_BIAS, bias);
  set(DNNL_ARG_WEIGHTS, p.packed_bytes > 0 ? static_cast<const void*>(packed_b) : b);
  if (p.packed_bytes > 0) {
    p.plain_b.set_data_handle(const_cast<float*>(b));
    p.repack.execute(s.stream, p.plain_b, p.arguments[DNNL_ARG_WEIGHTS]);
  }
  p.primitive.execute(s.stream, p.arguments);
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
