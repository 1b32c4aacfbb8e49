// Memory is allocated once: a step leaves the heap as it found it, and the owners' buffers do not
// move or grow.
#include <malloc.h>

#include <array>

#include "chimera/comm/collectives.h"
#include "support/golden.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

std::size_t heap_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The golden samples last for ten steps: they are taken again and again.
class CyclicSamples final : public SampleSource {
 public:
  explicit CyclicSamples(const GoldenModel& model)
      : inner_(model), count_(model.batch() * model.steps()) {}
  void read(Index number, std::int32_t* inputs, std::int32_t* targets) override {
    inner_.read(number % count_, inputs, targets);
  }

 private:
  GoldenSamples inner_;
  Index count_;
};

// Where every parameter, moment and gradient lies, and what each owner holds.
std::string memory_map(Worker& worker) {
  std::string out;
  worker.for_each_parameter([&](const Worker::Entry& e) {
    if (e.versions > 1) return;  // the newest weights change places
    for (const Tensor& t : {e.weight, e.m, e.v, e.master})
      out += std::to_string(reinterpret_cast<std::uintptr_t>(t.raw())) + " ";
  });
  for (const plan::MemoryItem& item : worker.memory())
    out += item.owner + " " + item.name + " " + std::to_string(item.bytes) + "\n";
  return out;
}

using Change = std::function<void(ParallelConfig&)>;

void check_heap(const std::string& schedule, Index depth, Index width, const Change& change = {},
                const std::string& precision = "fp32") {
  const GoldenModel model(schedule == "pipedream" ? "untied" : "tied");
  Config config = with_layout(model.config("rich"), schedule, depth, width,
                              schedule == "pipedream" ? 1 : model.batch() / width, model.batch());
  config.optimizer.grad_clip = 0;
  if (change) change(config.parallel);
  config.model.embd_pdrop = config.model.attn_pdrop = config.model.resid_pdrop = 0.1;
  config.train.steps = 500;
  config.precision.compute = precision;
  config.precision.stochastic_rounding = precision == "bf16";
  const Programs programs = build_programs(config);
  std::array<std::size_t, 9> heap{};
  std::size_t before = 0, after = 0;
  run_local(narrow<int>(config.workers()), 60, 1, [&](Communicator& comm) {
    CyclicSamples samples(model);
    Worker worker(config, programs, comm, [] { return false; });
    worker.initialize_weights();
    const auto measure = [&](std::size_t& into) {
      barrier(comm, 100, "all workers are between steps");
      if (comm.rank() == 0) into = heap_in_use();
      barrier(comm, 100, "the heap is measured");
    };
    Index step = 0;
    const auto steps = [&](Index n) {
      worker.train_steps(samples, step, step + n, [](Index, const StepResult&) { return false; });
      step += n;
    };
    measure(heap[0]);  // first use of the barrier's channels
    steps(10);
    const std::string map = memory_map(worker);
    measure(heap[0]);
    // glibc counts a freed block as in use while the cache of the thread that freed it holds it,
    // and blocks that one worker allocates and another frees move between caches, so single rounds
    // waver. What a step allocates and keeps would show in every round.
    std::size_t round = 0;
    do {
      steps(50);
      measure(heap[++round]);
    } while (round + 1 < heap.size() && heap[round] != heap[round - 1]);
    if (comm.rank() == 0) before = heap[round - 1], after = heap[round];
    ENSURE(memory_map(worker) == map, "a buffer moved or grew");
  });
  INFO(schedule << " D=" << depth << " W=" << width);
  CHECK(after == before);
}

}  // namespace

TEST_CASE("a step leaves the heap in use as it was, under every schedule", "[no-sanitizer]") {
  check_heap("1f1b", 1, 1);
  for (const std::string schedule : {"gpipe", "1f1b", "chimera"}) {
    check_heap(schedule, 2, 1);
    check_heap(schedule, 2, 2);
  }
  check_heap("chimera", 4, 1);
  for (const std::string sync : {"eager", "eager-opt"})
    check_heap("chimera", 2, 2, [&](ParallelConfig& p) {
      p.request.gradient_sync = sync;
      p.request.zero_stage = 1;
      p.recompute = "full";
    });
  check_heap("chimera", 4, 1, [](ParallelConfig& p) { p.request.scaling = "doubling"; });
  check_heap("chimera", 4, 1,
             [](ParallelConfig& p) { p.request.split_backward = p.request.overlap_steps = true; });
  for (const std::string precision : {"bf16", "fp16"})
    check_heap(
        "chimera", 2, 2, [](ParallelConfig& p) { p.request.zero_stage = 1; }, precision);
  check_heap("pipedream", 4, 2);
  check_heap("pipedream-2bw", 2, 2);
}
