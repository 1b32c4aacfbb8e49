// Messages of device memory without a wait of the host between them: what is sent has just been
// computed, what is received is computed with at once, and buffers are used again. A wait that is
// missing gives other bits for one of the seeds.
#include <algorithm>
#include <functional>
#include <optional>

#include "chimera/comm/background.h"
#include "comm/summing.h"
#include "on_device.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

using Floats = std::vector<float>;

// Every transport, on one GPU where it can, over eight orders of streams.
void for_every_run(int workers, const std::function<void(const DeviceRun&)>& body) {
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    for (const DeviceRun& run :
         {DeviceRun{DeviceTransport::Copies, 1, seed}, DeviceRun{DeviceTransport::Copies, 2, seed},
          DeviceRun{DeviceTransport::Staged, 1, seed},
          DeviceRun{DeviceTransport::Nccl, workers, seed}}) {
      INFO(to_string(run));
      body(run);
    }
}

std::span<float> floats(const Buffer& buffer) {
  return {reinterpret_cast<float*>(buffer.data()),
          static_cast<std::size_t>(buffer.bytes()) / sizeof(float)};
}

Index bytes_of(const Floats& x) { return std::ssize(x) * Index{sizeof(float)}; }

// x += y on the endpoint's stream.
void add(DeviceCommunicator& comm, const Buffer& x, const Buffer& y) {
  const float* const sources[] = {floats(x).data(), floats(y).data()};
  comm.adder()->add(floats(x).data(), sources, nullptr, std::ssize(floats(x)));
}

constexpr int kRounds = 6;

// Round by round every worker adds the predecessor's numbers to its own, in place.
std::vector<Floats> ring_on_host(std::vector<Floats> x) {
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Floats> before = x;
    for (std::size_t w = 0; w < x.size(); ++w)
      for (std::size_t i = 0; i < x[w].size(); ++i)
        x[w][i] += before[(w + x.size() - 1) % x.size()][i];
  }
  return x;
}

Floats ring_on_device(DeviceCommunicator& comm, CudaDevice& device, const Floats& start) {
  const int next = (comm.rank() + 1) % comm.size(),
            previous = (comm.rank() + comm.size() - 1) % comm.size();
  Buffer x(device, bytes_of(start)), y(device, bytes_of(start));
  const AbandonAtExit guard(comm);
  to_device(comm, x.data(), start.data(), x.bytes());
  for (int round = 0; round < kRounds; ++round) {
    const auto send = comm.send_start(next, 0, std::as_bytes(floats(x)));
    const auto receive = comm.recv_start(previous, 0, std::as_writable_bytes(floats(y)));
    comm.wait(receive, "a neighbour's numbers");
    comm.wait(send, "a neighbour's numbers");
    add(comm, x, y);
  }
  Floats result(start.size());
  to_host(comm, result.data(), x.data(), x.bytes());
  return result;
}

}  // namespace

TEST_CASE(
    "streams: what is sent was computed before, and what is received is computed with after") {
  for (const int workers : {2, 4}) {
    std::vector<Floats> start;
    for (int w = 0; w < workers; ++w)
      start.push_back(contribution(static_cast<std::size_t>(w), 999, 1));
    const std::vector<Floats> expected = ring_on_host(start);
    for_every_run(workers, [&](const DeviceRun& run) {
      run_on_devices(run, workers, 30, [&](DeviceCommunicator& comm, CudaDevice& device) {
        const auto me = static_cast<std::size_t>(comm.rank());
        ENSURE(equal_bits(ring_on_device(comm, device, start[me]), expected[me]), "worker ",
               comm.rank(), " has other numbers");
      });
    });
  }
}

// Each step's contributions are made on Compute from the last step's sum, and summed in the
// background while Compute goes on with something else; the host waits for nothing but tickets.
TEST_CASE("streams: sums in the background are bitwise the serial sums, step after step") {
  constexpr Index kElements = 1001;
  constexpr int kSteps = 3, kWorkers = 4;
  const std::vector<int> contributors{2, 0, 3, 1, 0};
  std::vector<Floats> mine(contributors.size());
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = contribution(i, kElements, 2);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Floats> before = mine;
    for (Index k = 0; k < kElements; ++k) {
      const auto at = static_cast<std::size_t>(k);
      float sum = before[0][at];
      for (std::size_t i = 1; i < mine.size(); ++i) sum += before[i][at];
      for (Floats& m : mine) m[at] += sum;
    }
  }

  struct Sum final : Background::Job {
    void run(std::string_view what) override {
      device->await(*ready, Stream::Reductions);
      if (halves) {
        sum->reduce_scatter(mine, result, scratch, what);
        sum->all_gather(result, what);
      } else {
        sum->all_reduce(mine, result, scratch, what);
      }
      device->record(*done, Stream::Reductions);
    }
    CudaDevice* device = nullptr;
    bool halves = false;
    std::optional<OrderedSum> sum;
    std::vector<float*> mine;
    float *result = nullptr, *scratch = nullptr;
    std::unique_ptr<Event> ready, done;
  };
  for_every_run(kWorkers, [&](const DeviceRun& run) {
    run_on_devices(run, kWorkers, 30, [&](DeviceCommunicator& comm, CudaDevice& device) {
      std::vector<Buffer> own;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (contributors[i] != comm.rank()) continue;
        own.emplace_back(device, kElements * Index{sizeof(float)});
        const Floats start = contribution(i, kElements, 2);
        to_device(comm, own.back().data(), start.data(), own.back().bytes());
      }
      const Buffer result(device, own[0].bytes()), scratch(device, 5 * own[0].bytes()),
          other(device, own[0].bytes());
      Sum job;
      Background background(comm.second_endpoint());
      job.device = &device;
      job.halves = run.seed % 2 == 1;
      job.sum.emplace(background.endpoint(), 3, contributors,
                      std::vector<Index>{0, 1, 400, 401, kElements});
      for (const Buffer& b : own) job.mine.push_back(floats(b).data());
      job.result = floats(result).data();
      job.scratch = floats(scratch).data();
      job.ready = device.make_event();
      job.done = device.make_event();
      for (int step = 0; step < kSteps; ++step) {
        device.record(*job.ready, Stream::Compute);
        const auto ticket = background.start(job, "a sum");
        device.zero(other.data(), other.bytes());
        background.wait(ticket);
        device.await(*job.done, Stream::Compute);
        for (const Buffer& b : own) add(comm, b, result);
      }
      std::size_t next = 0;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (contributors[i] != comm.rank()) continue;
        Floats last(static_cast<std::size_t>(kElements));
        to_host(comm, last.data(), own[next++].data(), own[0].bytes());
        ENSURE(equal_bits(last, mine[i]), "contribution ", i, " has other numbers");
      }
    });
  });
}

// Two links at once in both directions, of different lengths, none at all among them, several under
// way, and the second endpoint's between them.
TEST_CASE("streams: many messages under way on both endpoints keep apart") {
  constexpr int kMessages = 6;
  for_every_run(2, [&](const DeviceRun& run) {
    run_on_devices(run, 2, 30, [&](DeviceCommunicator& comm, CudaDevice& device) {
      const auto second_owned = comm.second_endpoint();
      auto& second = dynamic_cast<DeviceCommunicator&>(*second_owned);
      const int peer = 1 - comm.rank();
      const auto numbers = [&](int from, int endpoint, int i) {
        return contribution(static_cast<std::size_t>(i), 37 * i,
                            static_cast<unsigned>(7 * endpoint + from));
      };
      std::vector<Buffer> out, in;
      std::vector<Communicator::Request> requests[2];
      const AbandonAtExit guard(comm), second_guard(second);
      for (int i = 0; i < kMessages; ++i)
        for (int e = 0; e < 2; ++e) {
          DeviceCommunicator& endpoint = e == 0 ? comm : second;
          const Floats mine = numbers(comm.rank(), e, i);
          out.emplace_back(device, bytes_of(mine));
          in.emplace_back(device, bytes_of(mine));
          to_device(endpoint, out.back().data(), mine.data(), bytes_of(mine));
          requests[e].push_back(endpoint.send_start(peer, 0, std::as_bytes(floats(out.back()))));
          requests[e].push_back(
              endpoint.recv_start(peer, 0, std::as_writable_bytes(floats(in.back()))));
        }
      for (int e = 1; e >= 0; --e)
        for (const auto request : requests[e]) (e == 0 ? comm : second).wait(request, "a message");
      for (int i = 0; i < kMessages; ++i)
        for (int e = 0; e < 2; ++e) {
          const Floats expected = numbers(peer, e, i);
          Floats received(expected.size());
          to_host(e == 0 ? comm : second, received.data(),
                  in[static_cast<std::size_t>(2 * i + e)].data(), bytes_of(received));
          ENSURE(equal_bits(received, expected), "message ", i, " of endpoint ", e,
                 " has other numbers");
        }
      second.synchronize("the end");
      comm.synchronize("the end");
    });
  });
}
