// What is predicted is what is allocated and used: to the byte, and to the activation buffer.
#include <atomic>

#include "support/golden.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(Index& bytes) : bytes_(bytes) {}
  std::string name() const override { return inner_->name(); }
  void* allocate(Index bytes) override {
    bytes_ += bytes;
    return inner_->allocate(bytes);
  }
  void release(void* memory) noexcept override { inner_->release(memory); }
  void zero(void* memory, Index bytes) override { inner_->zero(memory, bytes); }
  void copy_in(void* to, const void* from, Index n) override { inner_->copy_in(to, from, n); }
  void copy_out(void* to, const void* from, Index n) override { inner_->copy_out(to, from, n); }
  void copy(void* to, const void* from, Index n, Stream lane) override {
    inner_->copy(to, from, n, lane);
  }

 private:
  Index& bytes_;
  std::unique_ptr<Device> inner_ = make_host_device();
};

struct Seen {
  std::vector<Index> bytes, predicted, activations, boundaries, versions;
};

Seen observe(const GoldenModel& model, const Config& config) {
  const Programs programs = build_programs(config);
  const std::vector<plan::WorkerFootprint> expected = footprints(config, programs);
  Seen seen;
  const auto n = static_cast<std::size_t>(config.workers());
  for (auto* list :
       {&seen.bytes, &seen.predicted, &seen.activations, &seen.boundaries, &seen.versions})
    list->resize(n);
  run_local(static_cast<int>(n), 60, 1, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    GoldenSamples samples(model);
    Backend backend = host_backend();
    backend.device = std::make_unique<CountingDevice>(seen.bytes[rank]);
    Worker worker(
        config, programs, comm, [] { return false; }, std::move(backend));
    worker.train_steps(samples, 0, model.steps(), [](Index, const StepResult&) { return false; });
    seen.predicted[rank] = expected[rank].bytes();
    seen.activations[rank] = worker.buffers().most_activations();
    seen.boundaries[rank] = worker.buffers().most_boundary();
    for (const auto& [id, held] : worker.held())
      seen.versions[rank] = std::max(seen.versions[rank], held.versions());
    ENSURE(worker.footprint().bytes() == expected[rank].bytes(), "two footprints");
  });
  for (std::size_t w = 0; w < n; ++w) {
    INFO("worker " << w);
    CHECK(seen.bytes[w] == seen.predicted[w]);
    CHECK(seen.activations[w] ==
          programs.train.activation_buffers[w % programs.train.activation_buffers.size()]);
    CHECK(seen.boundaries[w] ==
          programs.train.boundary_buffers[w % programs.train.activation_buffers.size()]);
  }
  return seen;
}

}  // namespace

// Peaks by the paper's Table 2, counted by the running program: an activation buffer lives from a
// forward to its backward.
TEST_CASE(
    "memory: buffers and versions of the running program are Table 2's, bytes the footprint's") {
  const GoldenModel model("untied");
  const Index D = 4, N = model.batch();
  const auto config = [&](const std::string& schedule, Index micro_batches) {
    Config c = with_layout(model.config("plain"), schedule, D, 1, micro_batches, N);
    c.optimizer.grad_clip = 0;
    return c;
  };
  REQUIRE(N >= 4);
  CHECK(observe(model, config("gpipe", N)).activations == std::vector<Index>(4, N));
  CHECK(observe(model, config("1f1b", N)).activations == std::vector<Index>{4, 3, 2, 1});
  CHECK(observe(model, config("gems", N)).activations == std::vector<Index>(4, 1));
  CHECK(observe(model, config("chimera", 4)).activations == std::vector<Index>{3, 4, 4, 3});
  const Seen two = observe(model, config("pipedream-2bw", N));
  CHECK(two.activations == std::vector<Index>{4, 3, 2, 1});
  CHECK(two.versions == std::vector<Index>(4, 2));
  const Seen stashing = observe(model, config("pipedream", 1));
  CHECK(stashing.activations == std::vector<Index>{4, 3, 2, 1});
  CHECK(stashing.versions == std::vector<Index>{4, 3, 2, 1});
}

TEST_CASE("memory: predicted bytes are allocated bytes in every way of running") {
  for (const std::string name : {"tied", "untied"}) {
    const GoldenModel model(name);
    const auto check = [&](Index D, Index W, const std::function<void(ParallelConfig&)>& set) {
      Config c =
          with_layout(model.config("plain"), "chimera", D, W, model.batch() / W, model.batch());
      c.optimizer.grad_clip = 0;
      set(c.parallel);
      observe(model, c);
    };
    check(2, 2, [](auto& p) { p.zero_stage = 1; });
    check(4, 1, [](auto& p) { p.zero_stage = 1, p.recompute = "full"; });
    check(4, 1, [](auto& p) { p.recompute = "selective"; });
    check(4, 1, [](auto& p) { p.scaling = "doubling"; });
    check(4, 1, [](auto& p) { p.split_backward = true, p.recompute = "full"; });
    check(4, 1, [](auto& p) { p.split_backward = p.overlap_steps = true; });
    check(2, 1, [](auto& p) { p.schedule = "pipedream-2bw"; });
    check(2, 2, [](auto& p) { p.schedule = "interleaved", p.virtual_stages = 2; });
    for (const std::string precision : {"bf16", "fp16"}) {
      Config c =
          with_layout(model.config("plain"), "chimera", 2, 2, model.batch() / 2, model.batch());
      c.precision.compute = precision;
      observe(model, c);
      c.parallel.zero_stage = 1;
      observe(model, c);
    }
  }
}
