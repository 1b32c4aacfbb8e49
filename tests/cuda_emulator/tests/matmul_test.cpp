// The cuBLASLt subset: numbers against a plain product in double, and every misuse refused.
#include <cublasLt.h>

#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

constexpr std::size_t kWorkspace = 1 << 20;

// D = epilogue(op(A) op(B) + beta C) with column-major matrices, and everything that can be wrong.
struct Call {
  int M = 24, N = 7, K = 13;
  cublasOperation_t ta = CUBLAS_OP_N, tb = CUBLAS_OP_N;
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t aux_leading = 24, d_leading = 24;
  float beta = 0;
  std::size_t workspace_bytes = kWorkspace;
  std::size_t d_offset = 0;  // elements
  int candidate = 0;
  bool d_over_a = false, short_d = false, host_d = false;
  bool d_over_aux = false, d_over_bias = false, no_aux = false, no_bias = false;
  std::size_t aux_offset = 0;  // elements
  int aux_type = -1;           // -1: as D
};

template <class T>
std::vector<T> numbers(std::size_t n, int seed) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 11) % 29 - 14) / 16.0f;
  return out;
}

struct Outcome {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  int candidates = 0;
  std::vector<float> d, bias, aux;
};

template <class V>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, V value) {
  REQUIRE(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof value) ==
          CUBLAS_STATUS_SUCCESS);
}

// T: of all matrices (call.in and call.out say so too).
template <class T>
Outcome run(const Call& call) {
  const auto [M, N, K] = std::tuple{call.M, call.N, call.K};
  const bool ta = call.ta == CUBLAS_OP_T, tb = call.tb == CUBLAS_OP_T;
  const auto size = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns);
  };
  const DeviceArray<T> a(numbers<T>(size(M, K), 1)), b(numbers<T>(size(K, N), 2));
  const std::size_t d_size = call.short_d ? size(M, N) - 1 : size(call.d_leading, N) + 16;
  const DeviceArray<T> d(numbers<T>(d_size, 3)), bias(numbers<T>(size(M + N, 1), 4)),
      aux(numbers<T>(size(call.aux_leading, N) + 8, 5));
  const DeviceArray<char> workspace(kWorkspace);

  cublasLtHandle_t library = nullptr;
  cublasLtMatmulDesc_t descriptor = nullptr;
  cublasLtMatrixLayout_t la = nullptr, lb = nullptr, ld = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtCreate(&library);
  cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, call.ta);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, call.tb);
  set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, call.epilogue);
  if (!call.no_bias)
    set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(bias.get()));
  if (!call.no_aux)
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        static_cast<void*>(aux.get() + call.aux_offset));
  if (call.aux_type >= 0)
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, call.aux_type);
  set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.aux_leading);
  const auto u = [](int n) { return static_cast<std::uint64_t>(n); };
  cublasLtMatrixLayoutCreate(&la, call.in, u(ta ? K : M), u(ta ? M : K), ta ? K : M);
  cublasLtMatrixLayoutCreate(&lb, call.in, u(tb ? N : K), u(tb ? K : N), tb ? N : K);
  cublasLtMatrixLayoutCreate(&ld, call.out, u(M), u(N), call.d_leading);
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint64_t most = kWorkspace;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                       sizeof most);
  cublasLtMatmulHeuristicResult_t found[8] = {};
  Outcome outcome;
  outcome.status = cublasLtMatmulAlgoGetHeuristic(library, descriptor, la, lb, ld, ld, preference,
                                                  8, found, &outcome.candidates);
  if (outcome.status == CUBLAS_STATUS_SUCCESS) {
    const float one = 1;
    std::vector<T> host(size(M, N));
    void* to = call.host_d        ? host.data()
               : call.d_over_a    ? a.get()
               : call.d_over_aux  ? aux.get()
               : call.d_over_bias ? bias.get()
                                  : d.get() + call.d_offset;
    outcome.status = cublasLtMatmul(library, descriptor, &one, a.get(), la, b.get(), lb, &call.beta,
                                    to, ld, to, ld, &found[call.candidate].algo, workspace.get(),
                                    call.workspace_bytes, nullptr);
  }
  if (outcome.status == CUBLAS_STATUS_SUCCESS) {
    for (const T value : d.values()) outcome.d.push_back(value);
    for (const T value : bias.values()) outcome.bias.push_back(value);
    for (const T value : aux.values()) outcome.aux.push_back(value);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  for (const cublasLtMatrixLayout_t layout : {la, lb, ld}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(descriptor);
  cublasLtDestroy(library);
  return outcome;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

template <class T>
struct Expected {
  const Call& call;
  std::vector<T> a, b, c, bias, aux;
  explicit Expected(const Call& k)
      : call(k),
        a(numbers<T>(static_cast<std::size_t>(k.M * k.K), 1)),
        b(numbers<T>(static_cast<std::size_t>(k.K * k.N), 2)),
        c(numbers<T>(static_cast<std::size_t>(k.d_leading) * k.N + 16, 3)),
        bias(numbers<T>(static_cast<std::size_t>(k.M + k.N), 4)),
        aux(numbers<T>(static_cast<std::size_t>(k.aux_leading) * k.N, 5)) {}
  double left(int i, int k) const {
    return a[static_cast<std::size_t>(call.ta == CUBLAS_OP_T ? i * call.K + k : k * call.M + i)];
  }
  double right(int k, int j) const {
    return b[static_cast<std::size_t>(call.tb == CUBLAS_OP_T ? k * call.N + j : j * call.K + k)];
  }
  double product(int i, int j) const {
    double sum = call.beta * float(c[static_cast<std::size_t>(j * call.d_leading + i)]);
    for (int k = 0; k < call.K; ++k) sum += left(i, k) * right(k, j);
    return sum;
  }
};

// Inputs are multiples of 1/16 below 1, so sums of products are exact in fp32: the error of D is
// the one rounding to T, and in the epilogues a few roundings of fp32.
template <class T>
void check_numbers(Call call, double rounding) {
  CAPTURE(call.ta, call.tb, call.epilogue, call.candidate, call.beta);
  const Outcome out = run<T>(call);
  REQUIRE(out.status == CUBLAS_STATUS_SUCCESS);
  const Expected<T> e(call);
  const int bits = call.epilogue;
  for (int j = 0; j < call.N; ++j)
    for (int i = 0; i < call.M; ++i) {
      double value = e.product(i, j);
      const auto at = static_cast<std::size_t>(j * call.d_leading + i);
      const auto aux_at = static_cast<std::size_t>(j * call.aux_leading + i);
      if (bits & CUBLASLT_EPILOGUE_BIAS) value += e.bias[static_cast<std::size_t>(i)];
      if (bits == CUBLASLT_EPILOGUE_GELU_AUX || bits == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
        REQUIRE(out.aux[aux_at] == Approx(value).epsilon(rounding).margin(1e-6));
      if (bits & CUBLASLT_EPILOGUE_GELU) value = gelu(value);
      if (bits & 64) value *= gelu_slope(e.aux[aux_at]);
      REQUIRE(out.d[at] == Approx(value).epsilon(rounding).margin(1e-6));
    }
}

TEST_CASE("products in every type, transposed or not, with every candidate") {
  new_machine(0);
  for (const auto ta : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (const auto tb : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (const int candidate : {0, 1, 2})
        for (const float beta : {0.0f, 1.0f}) {
          Call call;
          call.ta = ta;
          call.tb = tb;
          call.candidate = candidate;
          call.beta = beta;
          call.d_leading = 27;
          check_numbers<float>(call, 1e-6);
          call.in = call.out = CUDA_R_16BF;
          check_numbers<__nv_bfloat16>(call, 0x1p-8);
          call.in = call.out = CUDA_R_16F;
          check_numbers<__half>(call, 0x1p-11);
        }
}

TEST_CASE("epilogues: bias, GELU and its slope, what they keep") {
  new_machine(0);
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_AUX,
        CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU}) {
    Call call;
    call.epilogue = epilogue;
    check_numbers<float>(call, 1e-5);
    call.in = call.out = CUDA_R_16BF;
    check_numbers<__nv_bfloat16>(call, 0x1p-7);
  }
}

TEST_CASE("epilogues: bias gradients are sums of the right matrix") {
  new_machine(0);
  Call call;
  const Expected<float> e(call);
  const auto bias_of = [&](cublasLtEpilogue_t epilogue) {
    call.epilogue = epilogue;
    const Outcome out = run<float>(call);
    REQUIRE(out.status == CUBLAS_STATUS_SUCCESS);
    return out;
  };
  const Outcome by_a = bias_of(CUBLASLT_EPILOGUE_BGRADA), by_b = bias_of(CUBLASLT_EPILOGUE_BGRADB),
                by_d = bias_of(CUBLASLT_EPILOGUE_DGELU_BGRAD);
  for (int i = 0; i < call.M; ++i) {
    double sum_a = 0, sum_d = 0;
    for (int k = 0; k < call.K; ++k) sum_a += e.left(i, k);
    for (int j = 0; j < call.N; ++j)
      sum_d += double(by_d.d[static_cast<std::size_t>(j * call.M + i)]);
    CHECK(by_a.bias[static_cast<std::size_t>(i)] == Approx(sum_a).margin(1e-6));
    CHECK(by_d.bias[static_cast<std::size_t>(i)] == Approx(sum_d).epsilon(1e-5).margin(1e-5));
  }
  for (int j = 0; j < call.N; ++j) {
    double sum_b = 0;
    for (int k = 0; k < call.K; ++k) sum_b += e.right(k, j);
    CHECK(by_b.bias[static_cast<std::size_t>(j)] == Approx(sum_b).margin(1e-6));
  }
}

TEST_CASE("what the library cannot do is refused with the reason") {
  new_machine(0);
  const auto refused = [](const Call& call, cublasStatus_t status, const std::string& words) {
    CHECK(run<float>(call).status == status);
    CHECK_THAT(emulator::last_report(), Contains(words));
  };
  const auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  Call call;
  call.d_leading = 23;
  refused(call, invalid, "leading dimension is less than its rows");
  call = {};
  call.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  call.aux_leading = 20;
  refused(call, invalid, "must be a multiple of 8 and at least 24");
  call = {};
  call.out = CUDA_R_16BF;
  refused(call, CUBLAS_STATUS_NOT_SUPPORTED, "types fp32, fp32 to bf16");
  call = {};
  call.candidate = 1;
  call.workspace_bytes = 100;
  refused(call, invalid, "needs a workspace of 1344 bytes and gets 100");
  call = {};
  call.workspace_bytes = kWorkspace + 1;
  refused(call, invalid, "the workspace, 1048577 bytes, starts at byte 0 of an allocation");
  call = {};
  call.d_offset = 1;
  refused(call, invalid, "D is not aligned to 256 bytes");
  call = {};
  call.d_over_a = true;
  call.K = 20;
  refused(call, invalid, "D overlaps A");
  call = {};
  call.short_d = true;
  refused(call, invalid, "D, 672 bytes, starts at byte 0 of an allocation of 668 bytes");
  call = {};
  call.host_d = true;
  refused(call, invalid, "D, 672 bytes, starts at host memory");
}

TEST_CASE("epilogues used wrongly are refused with the reason") {
  new_machine(0);
  const auto refused = [](const Call& call, const std::string& words) {
    CHECK(run<float>(call).status != CUBLAS_STATUS_SUCCESS);
    CHECK_THAT(emulator::last_report(), Contains(words));
  };
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU}) {
    Call call;
    call.epilogue = epilogue;
    call.aux_offset = 1;
    refused(call, "the auxiliary matrix is not aligned to 16 bytes");
    call.aux_offset = 8;
    CHECK(run<float>(call).status == CUBLAS_STATUS_SUCCESS);
    call.no_aux = true;
    refused(call, "the auxiliary matrix is a null pointer");
    call = {};
    call.epilogue = epilogue;
    call.d_over_aux = true;
    refused(call, epilogue == CUBLASLT_EPILOGUE_DGELU ? "D overlaps the auxiliary matrix"
                                                      : "the auxiliary matrix overlaps D");
    call = {};
    call.epilogue = epilogue;
    call.aux_leading = 16;
    refused(call, "it must be a multiple of 8 and at least 24");
    call.aux_leading = 24;
    call.aux_type = CUDA_R_16BF;
    refused(call, "an auxiliary matrix not of D's type");
  }
  for (const auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADA,
                              CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
    Call call;
    call.epilogue = epilogue;
    call.no_bias = true;
    refused(call, "the bias is a null pointer");
  }
  Call call;
  call.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  call.M = 8;
  call.d_leading = 8;
  call.N = 1;
  call.d_over_bias = true;
  refused(call, "overlaps");
}

// Products of numbers that have one bit more than TF32 keeps: each operand is rounded, ties away
// from zero.
TEST_CASE("TF32 rounds the operands to 10 bits of mantissa, and is for fp32 alone") {
  new_machine(0);
  const float operand = 1 + 0x1p-11f;
  const DeviceArray<float> a(std::vector<float>(8, operand)), d(std::vector<float>(8, 0));
  const DeviceArray<float> b(std::vector<float>(1, 1));
  const auto run_as = [&](cublasComputeType_t compute, cudaDataType_t type) {
    cublasLtHandle_t library = nullptr;
    cublasLtMatmulDesc_t descriptor = nullptr;
    cublasLtMatrixLayout_t column = nullptr, one = nullptr;
    cublasLtCreate(&library);
    cublasLtMatmulDescCreate(&descriptor, compute, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&column, type, 8, 1, 8);
    cublasLtMatrixLayoutCreate(&one, type, 1, 1, 1);
    const float alpha = 1, beta = 0;
    const cublasStatus_t status =
        cublasLtMatmul(library, descriptor, &alpha, a.get(), column, b.get(), one, &beta, d.get(),
                       column, d.get(), column, nullptr, nullptr, 0, nullptr);
    cublasLtMatrixLayoutDestroy(column);
    cublasLtMatrixLayoutDestroy(one);
    cublasLtMatmulDescDestroy(descriptor);
    cublasLtDestroy(library);
    return status;
  };
  REQUIRE(run_as(CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values()[3] == operand);
  REQUIRE(run_as(CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values()[3] == 1 + 0x1p-10f);
  CHECK(run_as(CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_16BF) == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("an algorithm is good for what it was made for") {
  new_machine(0);
  cublasLtMatmulAlgo_t none = {};
  cublasLtHandle_t library = nullptr;
  cublasLtMatmulDesc_t descriptor = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtCreate(&library);
  cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 8, 8, 8);
  cublasLtMatmulHeuristicResult_t result;
  CHECK(cublasLtMatmulAlgoCheck(library, descriptor, layout, layout, layout, layout, &none,
                                &result) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK_THAT(emulator::last_report(), Contains("no heuristic gave"));
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  int count = 0;
  REQUIRE(cublasLtMatmulAlgoGetHeuristic(library, descriptor, layout, layout, layout, layout,
                                         preference, 1, &result, &count) == CUBLAS_STATUS_SUCCESS);
  const cublasLtMatmulAlgo_t algorithm = result.algo;
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  CHECK(cublasLtMatmulAlgoCheck(library, descriptor, layout, layout, layout, layout, &algorithm,
                                &result) == CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(descriptor);
  cublasLtDestroy(library);
}

}  // namespace
