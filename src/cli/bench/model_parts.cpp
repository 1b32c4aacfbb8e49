// `chimera bench step --model`: what the planner needs to know of a model on this machine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/benchmarks.h"
#include "chimera/base/file.h"
#include "chimera/base/threads.h"
#include "chimera/bench/model_parts.h"
#include "model_option.h"

namespace chimera::cli {
namespace {

struct ModelPartArguments {
  std::string model, save;
  std::vector<Index> samples = {1, 4};
  Index sequence = 0, threads = 1, workers = 0;
  int rounds = 9;
};

plan::MeasuredStep measure(const ModelPartArguments& a, const Config& config, Index workers,
                           Index B) {
  const model::ModelConfig& m = config.model;
  plan::MeasuredStep step;
  step.name = a.model;
  step.C = m.n_embd, step.H = m.n_head, step.V = m.vocab_size;
  step.T = config.sequence_length(), step.B = B;
  step.threads = a.threads, step.workers = workers;
  step.dropout = m.embd_pdrop + m.attn_pdrop + m.resid_pdrop > 0;
  run_local(narrow<int>(workers), 3600, narrow<int>(a.threads), [&](Communicator& comm) {
    const plan::PieceTimes times = bench::measure_model_parts(comm, m, B, step.T, a.rounds);
    if (comm.rank() == 0) step.times = times;
  });
  return step;
}

void print_row(const plan::MeasuredStep& s) {
  const plan::PieceTimes& t = s.times;
  const double rows = static_cast<double>(s.B * s.T), C = static_cast<double>(s.C);
  std::printf("| %ld | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.1f |\n",
              static_cast<long>(s.B), 1e3 * t.block_forward, 1e3 * t.block_input,
              1e3 * t.block_weight, 1e3 * t.block_selective, 1e3 * t.block_refill,
              1e3 * t.embedding_forward, 1e3 * t.embedding_backward, 1e3 * t.head,
              1e9 * t.optimizer,
              1e-9 * 72 * C * C * rows / (t.block_forward + t.block_input + t.block_weight));
  std::fflush(stdout);
}

void run(const ModelPartArguments& a) {
  if (!a.save.empty()) check_writable(a.save);
  const Config config = model_option(a.model, a.sequence);
  const Index workers =
      a.workers > 0 ? a.workers : std::max<Index>(1, available_cores() / a.threads);
  std::printf(
      "%s, T %ld, %ld workers of %ld threads at once; milliseconds per micro-batch\n\n"
      "| B | block F | block Bi | block Bw | selective | refill | embedding F | embedding B | head "
      "| "
      "optimizer ns/parameter | block GFLOP/s |\n"
      "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      a.model.c_str(), static_cast<long>(config.sequence_length()), static_cast<long>(workers),
      static_cast<long>(a.threads));
  plan::Calibration fresh = bench::this_machine();
  for (const Index B : a.samples) {
    fresh.steps.push_back(measure(a, config, workers, B));
    print_row(fresh.steps.back());
  }
  if (!a.save.empty()) plan::merge_into(a.save, fresh);
}

}  // namespace

std::function<bool()> add_model_part_options(CLI::App& step) {
  auto a = std::make_shared<ModelPartArguments>();
  CLI::Option* model = step.add_option(
      "--model", a->model, "measure the parts of this preset or configuration for `chimera plan`");
  const auto needs_model = [&](CLI::Option* option) { option->needs(model); };
  needs_model(step.add_option("--micro-batch", a->samples, "sizes B to measure")
                  ->check(CLI::Range(Index{1}, Index{4096}))
                  ->capture_default_str());
  needs_model(step.add_option("--sequence", a->sequence, "tokens per sample; 0: the model's")
                  ->check(CLI::Range(Index{0}, Index{1} << 20)));
  needs_model(step.add_option("--threads", a->threads, "threads of a worker")
                  ->check(CLI::Range(Index{1}, Index{1024}))
                  ->capture_default_str());
  needs_model(step.add_option("--workers", a->workers,
                              "workers that compute at once; 0: as many as the cores serve")
                  ->check(CLI::Range(Index{0}, Index{256})));
  needs_model(step.add_option("--rounds", a->rounds, "the fastest of how many rounds")
                  ->check(CLI::Range(1, 1000))
                  ->capture_default_str());
  needs_model(step.add_option("--save", a->save, "merge into this calibration file"));
  return [a] {
    if (a->model.empty()) return false;
    run(*a);
    return true;
  };
}

}  // namespace chimera::cli
