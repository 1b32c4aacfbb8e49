#include "matmul.h"

#include <map>

#include "autotune/autotuner.h"
#include "chimera/base/log.h"
#include "matmul_product.h"

namespace chimera::cuda {
namespace {

constexpr int kTimedCandidates = 12;

// What the library asks of aux: see "cublasLtMatmulDescAttributes_t", EPILOGUE_AUX_LD and _POINTER.
bool aux_fits(const MatmulCall& c) {
  return c.aux == nullptr ||
         (c.N % 8 == 0 && reinterpret_cast<std::uintptr_t>(c.aux) % 16 == 0 && !c.add);
}

}  // namespace

struct Matmul::State {
  cudaStream_t stream;
  MatmulSettings settings;
  AutotuneCache& cache;
  cublasLtHandle_t library = nullptr;
  void* workspace = nullptr;
  std::map<ProductShape, Product> products;
  Index timed = 0, found = 0;

  State(cudaStream_t s, const MatmulSettings& given, AutotuneCache& kept)
      : stream(s), settings(given), cache(kept) {
    check(cublasLtCreate(&library), "starting cuBLASLt");
    const cudaError_t status = cudaMalloc(&workspace, kMatmulWorkspace);
    if (status == cudaSuccess) return;
    cublasLtDestroy(library);
    check_cuda(status,
               "allocating the 32 MiB workspace of matrix products (where another program fills "
               "the GPU, nvidia-smi names it)");
  }
  ~State() {
    products.clear();
    cudaFree(workspace);
    cublasLtDestroy(library);
  }

  cublasStatus_t enqueue(const Product& p, const cublasLtMatmulAlgo_t& algorithm,
                         const MatmulCall& c, void* out) {
    const float alpha = 1, beta = c.add ? 1 : 0;
    return cublasLtMatmul(library, p.descriptor.get(), &alpha, c.b, p.first.get(), c.a,
                          p.second.get(), &beta, c.out, p.out.get(), out, p.out.get(), &algorithm,
                          workspace, kMatmulWorkspace, stream);
  }

  Product& product_of(const MatmulCall& c) {
    const ProductShape shape = shape_of(c);
    const auto known = products.find(shape);
    if (known != products.end()) {
      set_pointers(known->second, c);
      return known->second;
    }
    Product p = make_product(shape, settings.tf32);
    set_pointers(p, c);
    p.algorithm = choose(p, shape, c);
    return products.emplace(shape, std::move(p)).first->second;
  }

  std::optional<cublasLtMatmulAlgo_t> choose(const Product& p, const ProductShape& shape,
                                             const MatmulCall& c) {
    const std::string key = to_string(shape, settings.tf32);
    if (settings.time_candidates) {
      if (const auto earlier = cached_algorithm(p, key)) return earlier;
    }
    const bool timing = settings.time_candidates && !capturing(stream);
    const auto list = candidates(library, p, shape, timing ? kTimedCandidates : 1);
    if (list.empty()) return std::nullopt;
    if (!timing || list.size() == 1) return list.front();
    return time(list, p, key, c);
  }

  std::optional<cublasLtMatmulAlgo_t> cached_algorithm(const Product& p, const std::string& key) {
    const auto result = cache.find(key);
    if (!result) return std::nullopt;
    const auto algorithm = algorithm_of(result->value, library, p);
    if (algorithm) {
      ++found;
    } else {
      log_warning("GPU: ", key, ": cuBLASLt does not take the algorithm that ",
                  cache.path().string(), " names; timed again");
      cache.reject(key);
    }
    return algorithm;
  }

  // The fastest of the candidates; where out is added to, written to memory of its own, and without
  // memory for that, the first.
  cublasLtMatmulAlgo_t time(const std::vector<cublasLtMatmulAlgo_t>& list, const Product& p,
                            const std::string& key, const MatmulCall& c) {
    const TrialMemory trial(c.add ? checked_mul(checked_mul(c.M, c.N), size_of(c.out_type)) : 0);
    if (c.add && trial.get() == nullptr) {
      log_warning("GPU: ", key, ": no memory left to time algorithms in; the first one is taken");
      return list.front();
    }
    void* out = c.add ? trial.get() : c.out;
    std::vector<std::optional<double>> times;
    for (const cublasLtMatmulAlgo_t& algorithm : list)
      times.push_back(
          time_on(stream, [&] { return enqueue(p, algorithm, c, out) == CUBLAS_STATUS_SUCCESS; }));
    const auto best = fastest(times);
    if (!best) return list.front();  // whose error the run will name, or go without it
    ++timed;
    const AutotuneResult kept = cache.keep(key, {to_text(list[best->index]), best->milliseconds});
    return algorithm_of(kept.value, library, p).value_or(list[best->index]);
  }
};

Matmul::Matmul(cudaStream_t stream, const MatmulSettings& settings, AutotuneCache& cache)
    : state_(std::make_unique<State>(stream, settings, cache)) {}
Matmul::~Matmul() = default;

bool Matmul::try_run(const MatmulCall& c) {
  if (!aux_fits(c)) return false;
  Product& p = state_->product_of(c);
  if (!p.algorithm) return false;
  const cublasStatus_t status = state_->enqueue(p, *p.algorithm, c, c.out);
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (refused && c.epilogue != Epilogue::None) {  // what is proposed is not always what is taken
    log_info("GPU: ", to_string(shape_of(c), state_->settings.tf32),
             ": cuBLASLt refuses what it proposed: computed apart");
    p.algorithm.reset();
    return false;
  }
  ENSURE(status == CUBLAS_STATUS_SUCCESS, to_string(shape_of(c), state_->settings.tf32),
         ": cuBLASLt says ", cublasLtGetStatusName(status));
  return true;
}

void Matmul::run(const MatmulCall& c) {
  ENSURE(try_run(c), to_string(shape_of(c), state_->settings.tf32),
         ": cuBLASLt knows no algorithm for this product");
}

std::string Matmul::describe() const {
  const bool time = state_->settings.time_candidates;
  return concat(matmul_library(), ", ", state_->settings.tf32 ? "fp32 as TF32" : "fp32 in full",
                ": ", state_->products.size(), " shapes, ",
                time ? concat(state_->timed, " timed, ", state_->found, " from the cache")
                     : "first proposals");
}

std::string matmul_library() {
  const std::size_t v = cublasLtGetVersion();
  return concat("cuBLASLt ", v / 10000, ".", v / 100 % 100, ".", v % 100);
}

}  // namespace chimera::cuda
