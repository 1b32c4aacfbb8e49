// What was timed and chosen, between runs: the file, its damage, and that algorithms come from it.
#include "cuda/autotune/autotune_cache.h"

#include <thread>

#include "../epilogues.h"
#include "cuda/matmul/matmul.h"
#include "cuda/matmul/matmul_product.h"

using namespace chimera;
using namespace chimera::test;
using cuda::AutotuneCache;
using cuda::AutotuneResult;

namespace {

const cuda::AutotuneScope kScope{"NVIDIA H200", "9.0", "cuBLASLt 13.1.0", 13000, 13000};

std::string edited(const std::string& text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.substr(0, at) + to + text.substr(at + from.size());
}

// Its results differ in the last bits from candidate to candidate.
struct Products {
  static constexpr Index kM = 24, kN = 32, kK = 301;
  std::unique_ptr<CudaDevice> device = make_cuda_device(0);
  Floats a = random_floats(kM * kK, 1), b = random_floats(kK * kN, 2);

  std::string key() const {
    const Array<float> da(*device, a), db(*device, b), out(*device, Floats(kM * kN));
    return cuda::to_string(cuda::shape_of(call(da, db, out)), false);
  }
  static cuda::MatmulCall call(const Array<float>& a, const Array<float>& b,
                               const Array<float>& out) {
    return {out.get(), a.get(), b.get(), nullptr, DType::F32, DType::F32,
            false,     false,   false,   kM,      kN,         kK};
  }
  // By a new object, as in a new run. `said`: what it then says of itself.
  Floats run(const std::string& folder, std::string* said = nullptr) const {
    AutotuneCache cache(folder, kScope);
    cuda::Matmul matmul(device->stream(), {.time_candidates = true}, cache);
    const Array<float> da(*device, a), db(*device, b), out(*device, Floats(kM * kN));
    matmul.run(call(da, db, out));
    if (said != nullptr) *said = matmul.describe();
    return out.read();
  }
  std::vector<std::string> candidates() const {
    cublasLtHandle_t library = nullptr;
    cublasLtCreate(&library);
    const Array<float> da(*device, a), db(*device, b), out(*device, Floats(kM * kN));
    const cuda::ProductShape shape = cuda::shape_of(call(da, db, out));
    std::vector<std::string> texts;
    for (const auto& algorithm :
         cuda::candidates(library, cuda::make_product(shape, false), shape, 8))
      texts.push_back(cuda::to_text(algorithm));
    cublasLtDestroy(library);
    return texts;
  }
};

}  // namespace

TEST_CASE(
    "autotune cache: a run reads what another wrote, for the same device, libraries and driver") {
  const TemporaryFolder folder;
  const AutotuneResult first{"fused", 0.125}, second{"00ff", 3};
  Path file;
  {
    AutotuneCache cache(folder.path().string(), kScope);
    file = cache.path();
    CHECK_FALSE(cache.find("one"));
    CHECK(cache.keep("one", first) == first);
    CHECK(cache.keep("two \"quoted\"", second) == second);
  }
  CHECK(file.filename() == "nvidia-h200-sm-9.0-cublaslt-13.1.0-driver-13000-runtime-13000.json");
  AutotuneCache again(folder.path().string(), kScope);
  CHECK(again.find("one") == first);
  CHECK(again.find("two \"quoted\"") == second);
  CHECK_FALSE(again.find("three"));
  for (const auto change : {0, 1, 2, 3, 4}) {
    cuda::AutotuneScope other = kScope;
    if (change == 0) other.device = "NVIDIA H100";
    if (change == 1) other.capability = "8.0";
    if (change == 2) other.library = "cuBLASLt 13.2.0";
    if (change == 3) other.driver = 12080;
    if (change == 4) other.runtime = 12080;
    AutotuneCache foreign(folder.path().string(), other);
    CHECK(foreign.path() != file);
    CHECK_FALSE(foreign.find("one"));
    // Nor when the file has been copied to the other's name.
    std::filesystem::copy_file(file, foreign.path());
    CHECK_FALSE(AutotuneCache(folder.path().string(), other).find("one"));
  }
}

TEST_CASE("autotune cache: without a folder they live as long as the object") {
  AutotuneCache cache;
  CHECK(cache.path().empty());
  cache.keep("one", {"fused", 1});
  CHECK(cache.find("one")->value == "fused");
  CHECK_FALSE(AutotuneCache().find("one"));
}

TEST_CASE(
    "autotune cache: damage is ignored, what is good is kept, and the next result repairs the "
    "file") {
  const TemporaryFolder folder;
  const auto open = [&] { return AutotuneCache(folder.path().string(), kScope); };
  const Path file = open().path();
  open().keep("good", {"a", 1});
  open().keep("bad", {"b", 2});
  const std::string text = slurp(file);

  // Files that are none.
  for (const std::string& damaged :
       {std::string(), std::string("{"), text.substr(0, text.size() / 2), std::string("[1, 2]"),
        std::string("\0\xff", 2),
        edited(text, "chimera autotune cache 1", "chimera autotune cache 2"),
        edited(text, "\"entries\":", "\"entry\":"), std::string(100000, '['),
        edited(text, "13000", "\"13000\"")}) {
    spit(file, damaged);
    CHECK_FALSE(open().find("good"));
    CHECK(open().keep("good", {"c", 3}).value == "c");
    CHECK(open().find("good") == AutotuneResult{"c", 3});
  }
  // Entries that are none.
  for (const std::string& entry :
       {std::string("7"), std::string("\"b\""), std::string("{\"result\": 1, \"ms\": 2}"),
        std::string("{\"result\": \"b\"}"), std::string("{\"result\": \"b\", \"ms\": \"2\"}"),
        "{\"result\": \"" + std::string(2000, 'b') + "\", \"ms\": 2}"}) {
    const auto from = text.find("\"bad\": ") + 7, to = text.find('}', from) + 1;
    spit(file, text.substr(0, from) + entry + text.substr(to));
    CHECK(open().find("good") == AutotuneResult{"a", 1});
    CHECK_FALSE(open().find("bad"));
    CHECK(open().keep("bad", {"c", 3}).value == "c");
    CHECK(open().find("good") == AutotuneResult{"a", 1});
  }
}

TEST_CASE("autotune cache: a file that cannot be written costs no result") {
  const TemporaryFolder folder;
  spit(folder / "file", "");
  AutotuneCache cache((folder / "file").string(), kScope);
  CHECK(cache.keep("one", {"a", 1}).value == "a");
  CHECK(cache.find("one")->value == "a");
}

// A lock that another process never gives back, or that cannot be made, is waited for once (2 s).
TEST_CASE("autotune cache: a file that cannot be written is tried once, not once for each result") {
  const TemporaryFolder folder;
  AutotuneCache cache(folder.path().string(), kScope);
  const Path lock = cache.path().string() + ".lock";
  std::filesystem::create_directory(lock);
  CHECK(cache.keep("one", {"a", 1}).value == "a");
  std::filesystem::remove(lock);
  CHECK(cache.keep("two", {"b", 1}).value == "b");
  CHECK(cache.find("one")->value == "a");
  CHECK(cache.find("two")->value == "b");
  CHECK_FALSE(std::filesystem::exists(cache.path()));
}

// Workers meet a shape at the same time and time it each for itself: one of them is followed.
TEST_CASE("autotune cache: all of a job take the result that was written first, and none is lost") {
  const TemporaryFolder folder;
  constexpr int kWorkers = 6, kKeys = 5;
  std::string taken[kWorkers][kKeys];
  std::vector<std::thread> workers;
  for (int w = 0; w < kWorkers; ++w)
    workers.emplace_back([&, w] {
      AutotuneCache cache(folder.path().string(), kScope);
      for (int k = 0; k < kKeys; ++k)
        taken[w][k] = cache.keep("shared " + std::to_string(k), {std::to_string(w), 1}).value;
      cache.keep("of worker " + std::to_string(w), {std::to_string(w), 1});
    });
  for (std::thread& worker : workers) worker.join();
  AutotuneCache after(folder.path().string(), kScope);
  for (int w = 0; w < kWorkers; ++w) {
    CHECK(after.find("of worker " + std::to_string(w))->value == std::to_string(w));
    for (int k = 0; k < kKeys; ++k)
      CHECK(after.find("shared " + std::to_string(k))->value == taken[w][k]);
  }
}

TEST_CASE("matmul: the algorithm of an earlier run is used, whichever it was") {
  const TemporaryFolder folder;
  const Products products;
  const auto algorithms = products.candidates();
  REQUIRE(algorithms.size() == 3);
  std::vector<Floats> results;
  for (const std::string& algorithm : algorithms) {
    const TemporaryFolder each;
    AutotuneCache(each.path().string(), kScope).keep(products.key(), {algorithm, 1});
    std::string said;
    results.push_back(products.run(each.path().string(), &said));
    CHECK_THAT(said, Catch::Contains("1 shapes, 0 timed, 1 from the cache"));
  }
  CHECK(results[0] != results[1]);  // so it matters which
  CHECK(results[1] != results[2]);

  std::string said;
  const Floats first = products.run(folder.path().string(), &said);
  CHECK_THAT(said, Catch::Contains("1 shapes, 1 timed, 0 from the cache"));
  CHECK((first == results[0] || first == results[1] || first == results[2]));
  CHECK(products.run(folder.path().string(), &said) == first);
  CHECK_THAT(said, Catch::Contains("1 shapes, 0 timed, 1 from the cache"));
}

TEST_CASE("matmul: an algorithm that the library refuses is timed again and replaced") {
  const Products products;
  const std::string good = products.candidates()[2];
  for (const std::string& bad : {std::string("fused"), std::string(), good.substr(2),
                                 std::string(good.size(), '0'), std::string(good.size(), 'g')}) {
    const TemporaryFolder folder;
    const std::string key = products.key();
    AutotuneCache(folder.path().string(), kScope).keep(key, {bad, 1});
    std::string said;
    const Floats result = products.run(folder.path().string(), &said);
    CHECK_THAT(said, Catch::Contains("1 timed"));
    const auto now = AutotuneCache(folder.path().string(), kScope).find(key);
    REQUIRE(now);
    CHECK(now->value.size() == good.size());
    CHECK(now->value != bad);
    CHECK(products.run(folder.path().string()) == result);
  }
}

TEST_CASE("autotune cache: ops of a second run do what the first one chose, and say so") {
  const TemporaryFolder folder;
  const CudaOpsSettings settings{.autotune_matmul = true,
                                 .epilogues = CudaImplementation::Autotuned,
                                 .autotune_cache = folder.path().string()};
  const auto device = make_cuda_device(0);
  const auto results = [&](std::vector<std::string>& lines) {
    const auto ops = make_cuda_ops(*device, settings);
    LinearResults r = run_linear<__nv_bfloat16>(*device, *ops, kAligned);
    lines = ops->describe();
    return r;
  };
  std::vector<std::string> first, second;
  const LinearResults expected = results(first);
  CHECK(results(second) == expected);
  REQUIRE(first.size() == 5);  // products, attention, three pairs
  REQUIRE(second.size() == 5);
  CHECK_THAT(second[0], Catch::Contains(" 0 timed"));
  CHECK_THAT(first[2], Catch::Contains("linear gelu forward BF16 R 24 K 40 N 64: ") &&
                           Catch::Contains(" ms, apart "));
  for (std::size_t i = 2; i < 5; ++i) CHECK_THAT(second[i], Catch::EndsWith(", from the cache"));
}

TEST_CASE("autotune cache: while a stream is captured nothing is timed") {
  const auto device = make_cuda_device(0);
  const auto ops =
      make_cuda_ops(*device, {.autotune_matmul = true, .epilogues = CudaImplementation::Autotuned});
  const auto own = make_cuda_ops(*device);
  const Array<float> a(*device, random_floats(64 * 64, 1)), b(*device, random_floats(64 * 64, 2)),
      out(*device, Floats(64 * 64)), expected(*device, Floats(64 * 64));
  const Array<float> dbias(*device, Floats(64));
  const Tensor x = matrix_of(a, 64, 64), dy = matrix_of(b, 64, 64), db = vector_of(dbias);
  ops->bias_backward(db, dy);  // kernels' scratch memory grows before
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamBeginCapture(device->stream(), cudaStreamCaptureModeThreadLocal) ==
          cudaSuccess);
  ops->linear_backward_weight(matrix_of(out, 64, 64), db, x, dy);
  REQUIRE(cudaStreamEndCapture(device->stream(), &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, device->stream()) == cudaSuccess);
  own->linear_backward_weight(matrix_of(expected, 64, 64), db, x, dy);
  CHECK(out.read() == expected.read());
  CHECK_THAT(ops->describe()[0], Catch::Contains(" 0 timed"));
  CHECK(ops->describe().size() == 2);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}
