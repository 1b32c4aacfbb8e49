// The NCCL subset: ranks are threads, one device each.
#include <nccl.h>

#include <thread>

#include "device_array.h"

namespace {

using namespace emulator_test;
using Catch::Contains;

// Device memory of a rank, without checks: Catch's are for one thread.
struct Buffer {
  float* data = nullptr;
  std::size_t n;
  explicit Buffer(std::vector<float> values) : n(values.size()) {
    if (cudaMalloc(&data, n * 4) == cudaSuccess)
      cudaMemcpy(data, values.data(), n * 4, cudaMemcpyHostToDevice);
  }
  ~Buffer() { (void)cudaFree(data); }
  Buffer(const Buffer&) = delete;
  std::vector<float> values() const {
    std::vector<float> out(n);
    cudaMemcpy(out.data(), data, n * 4, cudaMemcpyDeviceToHost);
    return out;
  }
};

struct Rank {
  int rank, size;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  ncclResult_t joined = ncclSuccess;
  cudaError_t synchronize() const { return cudaStreamSynchronize(stream); }
};

// Runs body(rank) on a thread per rank, each on its device with a stream and the communicator.
template <class Body>
auto on_ranks(int size, const Body& body, bool destroy = true) {
  using Result = decltype(body(std::declval<Rank&>()));
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<Result> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      cudaSetDevice(r);
      Rank rank{r, size};
      cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking);
      rank.joined = ncclCommInitRank(&rank.comm, size, id, r);
      results[static_cast<std::size_t>(r)] = body(rank);
      if (destroy) ncclCommDestroy(rank.comm);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<float> iota(std::size_t n, float first) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = first + static_cast<float>(i);
  return out;
}

TEST_CASE("collectives give every rank what they should, for every order") {
  const int R = 3;
  const std::size_t n = 5;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    new_machine(seed, R);
    const auto results = on_ranks(R, [&](Rank& r) {
      const Buffer x(iota(n, 10.0f * static_cast<float>(r.rank))), sum(iota(n, 0)),
          all(iota(n * R, 0)), wide(iota(n * R, static_cast<float>(r.rank))), part(iota(n, 0)),
          from_one(iota(n, static_cast<float>(r.rank)));
      ncclAllReduce(x.data, sum.data, n, ncclFloat, ncclSum, r.comm, r.stream);
      ncclAllGather(x.data, all.data, n, ncclFloat, r.comm, r.stream);
      ncclReduceScatter(wide.data, part.data, n, ncclFloat, ncclSum, r.comm, r.stream);
      ncclBroadcast(from_one.data, from_one.data, n, ncclFloat, 1, r.comm, r.stream);
      ncclAllReduce(x.data, x.data, n, ncclFloat, ncclMax, r.comm, r.stream);
      r.synchronize();
      return std::vector{sum.values(), all.values(), part.values(), from_one.values(), x.values()};
    });
    for (int rank = 0; rank < R; ++rank) {
      const auto& got = results[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < n; ++i) {
        const auto f = static_cast<float>(i);
        REQUIRE(got[0][i] == 30 + 3 * f);
        for (int k = 0; k < R; ++k)
          REQUIRE(got[1][static_cast<std::size_t>(k) * n + i] == 10 * static_cast<float>(k) + f);
        REQUIRE(got[2][i] == 3 * (static_cast<float>(rank) * n + f) + 3);
        REQUIRE(got[3][i] == 1 + f);
        REQUIRE(got[4][i] == 20 + f);
      }
    }
  }
}

TEST_CASE("sums of bf16 are rounded at every rank, and are the same on all") {
  const int R = 4;
  new_machine(0, R);
  const auto results = on_ranks(R, [&](Rank& r) {
    std::vector<__nv_bfloat16> x(8, __nv_bfloat16(r.rank == 0 ? 256.0f : 1.0f));
    __nv_bfloat16* data = nullptr;
    cudaMalloc(&data, 16);
    cudaMemcpy(data, x.data(), 16, cudaMemcpyHostToDevice);
    ncclAllReduce(data, data, 8, ncclBfloat16, ncclSum, r.comm, r.stream);
    r.synchronize();
    cudaMemcpy(x.data(), data, 16, cudaMemcpyDeviceToHost);
    cudaFree(data);
    std::vector<float> out;
    for (const __nv_bfloat16 value : x) out.push_back(value);
    return out;
  });
  CHECK(all_the_same(results));
  // 256 + 1 is 256 in bf16; where the ones meet first, 256 + 2 or 256 + 4 with the 3 rounded to
  // even.
  for (const float value : results[0]) CHECK((value == 256 || value == 258 || value == 260));
}

// A ring of sends and receives; grouped or not.
std::vector<cudaError_t> ring(bool grouped) {
  return on_ranks(
      4,
      [&](Rank& r) {
        const Buffer out(iota(3, static_cast<float>(r.rank))), in(iota(3, -1));
        if (grouped) ncclGroupStart();
        ncclSend(out.data, 3, ncclFloat, (r.rank + 1) % r.size, r.comm, r.stream);
        ncclRecv(in.data, 3, ncclFloat, (r.rank + r.size - 1) % r.size, r.comm, r.stream);
        if (grouped) ncclGroupEnd();
        const cudaError_t status = r.synchronize();
        const bool right = in.values() == iota(3, static_cast<float>((r.rank + 3) % 4));
        return status == cudaSuccess && !right ? cudaErrorUnknown : status;
      },
      grouped);
}

TEST_CASE("a ring of messages needs a group: without one every rank sends and nobody receives") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    new_machine(seed, 4);
    for (const cudaError_t status : ring(true)) CHECK(status == cudaSuccess);
    for (const cudaError_t status : ring(false)) CHECK(status == cudaErrorLaunchFailure);
    CHECK_THAT(emulator::last_report(), Contains("wait for each other for ever") &&
                                            Contains("ncclSend of 3 fp32 to rank 1 by rank 0"));
  }
}

TEST_CASE("messages of two streams over one link meet in the order of the calls") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    new_machine(seed, 2);
    const auto results = on_ranks(2, [&](Rank& r) {
      const Buffer a(iota(1, 1)), b(iota(1, 2));
      for (const Buffer* x : {&a, &b})
        r.rank == 0 ? ncclSend(x->data, 1, ncclFloat, 1, r.comm, r.stream)
                    : ncclRecv(x->data, 1, ncclFloat, 0, r.comm, r.stream);
      r.synchronize();
      return std::vector{a.values()[0], b.values()[0]};
    });
    CHECK(results[1] == std::vector<float>{1, 2});
  }
}

// Each rank's last status when rank 1 does `odd` where the others do `even`.
template <class Call>
void check_mismatch(const std::string& words, const Call& call) {
  CAPTURE(words);
  for (const std::uint64_t seed : {0u, 1u, 4u}) {
    new_machine(seed, 2);
    const auto results = on_ranks(
        2,
        [&](Rank& r) {
          const Buffer x(iota(16, 0)), y(iota(16, 0));
          const ncclResult_t result = call(r, x.data, y.data);
          return static_cast<int>(result != ncclSuccess || r.synchronize() != cudaSuccess);
        },
        /*destroy=*/false);
    CHECK(results[0]);
    CHECK(results[1]);
    CHECK_THAT(emulator::last_report(), Contains(words));
  }
}

TEST_CASE("collectives that differ between ranks are reported at once, not waited for") {
  const auto reduce = [](Rank& r, float* x, std::size_t n, ncclDataType_t type, ncclRedOp_t op) {
    return ncclAllReduce(x, x, n, type, op, r.comm, r.stream);
  };
  check_mismatch("all ranks must call the same", [&](Rank& r, float* x, float*) {
    return reduce(r, x, r.rank == 0 ? 8 : 9, ncclFloat, ncclSum);
  });
  check_mismatch("ncclAllReduce of 8 fp16 (sum)", [&](Rank& r, float* x, float*) {
    return reduce(r, x, 8, r.rank == 0 ? ncclFloat : ncclHalf, ncclSum);
  });
  check_mismatch("(maximum)", [&](Rank& r, float* x, float*) {
    return reduce(r, x, 8, ncclFloat, r.rank == 0 ? ncclMax : ncclSum);
  });
  check_mismatch("root 1", [&](Rank& r, float* x, float*) {
    return ncclBroadcast(x, x, 8, ncclFloat, r.rank, r.comm, r.stream);
  });
  check_mismatch("collective 1 of the communicator", [&](Rank& r, float* x, float* y) {
    for (const int which : {r.rank, 1 - r.rank}) {  // two collectives in opposite order
      const ncclResult_t result = which == 0 ? ncclAllGather(x, y, 8, ncclFloat, r.comm, r.stream)
                                             : reduce(r, x, 8, ncclFloat, ncclSum);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  });
  check_mismatch("counts and types must agree", [&](Rank& r, float* x, float*) {
    return r.rank == 0 ? ncclSend(x, 8, ncclFloat, 1, r.comm, r.stream)
                       : ncclRecv(x, 7, ncclFloat, 0, r.comm, r.stream);
  });
  check_mismatch("wait for each other for ever", [&](Rank& r, float* x, float* y) {
    if (r.rank == 0) ncclSend(x, 8, ncclFloat, 1, r.comm, r.stream);
    const ncclResult_t result = reduce(r, y, 8, ncclFloat, ncclSum);
    if (r.rank == 1) ncclRecv(x, 8, ncclFloat, 0, r.comm, r.stream);
    return result;
  });
}

TEST_CASE("a rank that does not come is waited for until the deadline, and named") {
  emulator::Options options;
  options.devices = 2;
  options.deadline_seconds = 0.2;
  emulator::reset(options);
  const auto results = on_ranks(
      2,
      [&](Rank& r) {
        const Buffer x(iota(8, 0));
        if (r.rank == 0) ncclAllReduce(x.data, x.data, 8, ncclFloat, ncclSum, r.comm, r.stream);
        return r.synchronize();
      },
      false);
  CHECK(results[0] == cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_report(),
             Contains("waited 0.2 s") && Contains("ncclAllReduce of 8 fp32 (sum) by rank 0"));
}

TEST_CASE("abort ends what is enqueued, and other ranks hear of it") {
  new_machine(0, 2);
  const auto results = on_ranks(
      2,
      [&](Rank& r) {
        const Buffer x(iota(8, 0));
        if (r.rank == 1) {
          ncclCommAbort(r.comm);
          return ncclSuccess;
        }
        ncclAllReduce(x.data, x.data, 8, ncclFloat, ncclSum, r.comm, r.stream);
        ncclResult_t error = ncclSuccess;
        while (error == ncclSuccess) {  // a watchdog's loop
          (void)cudaStreamQuery(r.stream);
          ncclCommGetAsyncError(r.comm, &error);
        }
        ncclCommAbort(r.comm);
        return r.synchronize() == cudaSuccess ? error : ncclInternalError;
      },
      false);
  CHECK(results[0] == ncclRemoteError);
}

TEST_CASE("communicators: one rank per device, buffers of the device, in place NCCL's way") {
  new_machine(0, 2);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t a = nullptr, b = nullptr;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclCommInitRank(&a, 2, id, 0) == ncclSuccess);
  CHECK(ncclCommInitRank(&b, 2, id, 1) == ncclInvalidUsage);
  CHECK_THAT(emulator::last_report(), Contains("are both on device 0"));
  ok(cudaSetDevice(1));
  CHECK(ncclCommInitRank(&b, 2, id, 1) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  const Buffer x(iota(16, 0));  // on device 1
  CHECK(ncclAllReduce(x.data, x.data, 8, ncclFloat, ncclSum, a, nullptr) == ncclInvalidUsage);
  ok(cudaSetDevice(0));
  CHECK(ncclAllReduce(x.data, x.data, 8, ncclFloat, ncclSum, a, nullptr) == ncclInvalidArgument);
  CHECK_THAT(emulator::last_report(), Contains("64 bytes on device 1; rank 0 is on device 0"));
  ok(cudaSetDevice(1));
  CHECK(ncclAllReduce(x.data, x.data, 17, ncclFloat, ncclSum, b, nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(x.data, x.data + 1, 8, ncclFloat, ncclSum, b, nullptr) ==
        ncclInvalidArgument);
  CHECK_THAT(emulator::last_report(), Contains("not in NCCL's in-place way"));
  CHECK(ncclAllGather(x.data, x.data, 8, ncclFloat, b, nullptr) == ncclInvalidArgument);
  CHECK(ncclSend(x.data, 8, ncclFloat, 2, b, nullptr) == ncclInvalidArgument);
}

}  // namespace
