#include "chimera/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "chimera/base/log.h"
#include "chimera/base/threads.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/trace.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/render.h"
#include "chimera/train/data_source.h"
#include "chimera/train/metrics.h"
#include "chimera/train/sampling.h"
#include "mfu_peak.h"

namespace chimera::train {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int kStartChannel = 100;

// The first step may touch cold files and make what is made once.
constexpr double kFirstStepPatience = 10;

std::string random_id() {
  std::random_device entropy;
  std::string id;
  for (int i = 0; i < 16; ++i) id += "0123456789abcdef"[entropy() % 16];
  return id;
}

// One line on the schedule, and its picture while that fits on a screen.
std::string schedule_summary(const schedule::Schedule& plan) {
  constexpr int kWidestPicture = 8;
  const schedule::Timetable table =
      schedule::as_soon_as_possible(schedule::computations(plan), {.forward = 1, .backward = 2});
  std::string out =
      concat("schedule: ", plan.name, ", depth ", plan.depth, ", width ", plan.width, ", ",
             plan.micro_batches,
             " micro-batches per pipeline group; bubbles with a backward of two forwards: ",
             std::round(1000 * table.bubble_ratio()) / 10, " %\n");
  if (plan.depth > 1 && plan.depth <= kWidestPicture && plan.micro_batches <= 2 * kWidestPicture)
    out += schedule::render_grid(table);
  return out;
}

void print_plan(const Config& config, const Programs& programs, const std::string& data,
                Worker& worker, const std::vector<double>& totals) {
  std::cout << worker.backend().description
            << "model: " << human_count(static_cast<double>(model::parameter_count(config.model)))
            << " parameters, " << config.model.n_layer << " layers, " << config.model.n_embd
            << " wide, vocabulary " << config.model.vocab_size << "; batch " << config.batch()
            << " x " << config.sequence_length() << " tokens"
            << (config.precision.compute == "fp32" ? "" : ", in " + config.precision.compute)
            << "\n"
            << data << schedule_summary(programs.train) << "memory of worker 0:\n";
  Index total = 0;
  for (const plan::MemoryItem& item : worker.memory()) {
    total += item.bytes;
    std::printf("  %-12s %-28s %12s\n", item.owner.c_str(), item.name.c_str(),
                human_bytes(item.bytes).c_str());
  }
  std::printf("  %-41s %12s\n", "total", human_bytes(total).c_str());
  if (totals.size() > 1) {
    constexpr std::size_t kMostShown = 16;
    std::printf("  total of each worker:");
    for (std::size_t i = 0; i < std::min(totals.size(), kMostShown); ++i)
      std::printf(" %s", human_bytes(static_cast<Index>(totals[i])).c_str());
    const double most = *std::ranges::max_element(totals);
    std::printf("%s; largest %s\n", totals.size() > kMostShown ? " ..." : "",
                human_bytes(static_cast<Index>(most)).c_str());
  }
  std::fflush(stdout);
}

// What each worker took of what was predicted: buffers are the part that the schedule decides.
void print_used(Worker& worker, const Programs& programs, bool lead) {
  Communicator& comm = worker.comm();
  constexpr std::size_t kNumbers = 4;
  std::vector<double> used(kNumbers * static_cast<std::size_t>(comm.size()));
  const auto own = used.begin() + static_cast<std::ptrdiff_t>(kNumbers) * comm.rank();
  own[0] = static_cast<double>(worker.buffers().most_activations());
  own[1] = static_cast<double>(worker.footprint().activation_buffers);
  own[2] = static_cast<double>(worker.buffers().most_boundary());
  own[3] = static_cast<double>(worker.footprint().boundary_buffers);
  sum_over_ranks(comm, kStartChannel, used, "the buffers of all workers");
  if (!lead) return;
  std::string line = "buffers used of predicted, activation and boundary, by worker:";
  const auto shown = std::min(static_cast<std::size_t>(programs.train.depth), std::size_t{32});
  for (std::size_t w = 0; w < shown; ++w) {
    const double* n = used.data() + kNumbers * w;
    line += concat(" ", n[0], "/", n[1], "+", n[2], "/", n[3]);
  }
  std::cout << line << std::endl;
}

// One worker's run. Every decision is taken alike by all workers: from the configuration, the step,
// or the step synchronisation.
class Run {
 public:
  Run(const Config& config, const TrainOptions& options, const RunInputs& inputs,
      const Programs& programs, Communicator& comm)
      : config_(config),
        options_(options),
        inputs_(inputs),
        programs_(programs),
        lead_(comm.rank() == 0),
        worker_(config, programs, comm, stop_signal_received,
                options.check ? planning_backend() : make_backend(config, programs, comm)),
        overlap_(programs.train.lag()) {
    for (const Index step : config.log.trace_steps) traced_steps_.push_back(step - 1);
    std::vector<double> totals(static_cast<std::size_t>(comm.size()));
    for (const plan::MemoryItem& item : worker_.memory())
      totals[static_cast<std::size_t>(comm.rank())] += static_cast<double>(item.bytes);
    sum_over_ranks(comm, kStartChannel, totals, "the memory of all workers");
    if (lead_) print_plan(config, programs, inputs.data_summary, worker_, totals);
  }

  ExitCode train() {
    if (options_.check) return ExitCode::Done;
    run_id_ = broadcast_text(worker_.comm(), lead_ ? random_id() : "", "the run's name");
    worker_.set_timeout_scale(kFirstStepPatience);
    start();
    Index step = start_.step;
    if (step >= config_.train.steps && lead_)
      std::cout << "nothing to do: the checkpoint has " << step << " steps, train.steps is "
                << config_.train.steps << "\n";
    bool stop = catch_up_evaluation();
    while (step < config_.train.steps && !stop) {
      stop = train_to(step, pause_after(step));
      if (!announced_) announce_choices();
      const bool last = step == config_.train.steps;
      if (!stop && evaluation_due(step)) stop = evaluate(step);
      if (!stop && due(step, config_.train.sample_every)) sample(step);
      if (due(step, config_.checkpoint.every) || last || stop) save(step, last || stop);
    }
    if (metrics_) metrics_->finish_live_line();
    if (step > start_.step) print_used(worker_, programs_, lead_);
    if (!stop) return ExitCode::Done;
    return stopped(step);
  }

 private:
  void start() {
    training_ = inputs_.training();
    validation_ = inputs_.validation ? inputs_.validation() : nullptr;
    start_ = load_or_initialize(worker_, config_, inputs_.identity, options_.resume);
    worker_.set_sample_origin(start_.consumed_samples - start_.step * config_.batch());
    const double peak = lead_ ? measured_peak(config_, worker_) : 0;
    barrier(worker_.comm(), kStartChannel, "the measurement of the machine");  // it needs the cores
    if (!lead_) return;
    if (!start_.from.empty())
      std::cout << "resumed from " << start_.from << " after step " << start_.step << std::endl;
    metrics_ = std::make_unique<Metrics>(config_, start_.step, start_.consumed_samples, peak);
  }

  void announce_choices() {
    announced_ = true;
    if (!lead_ || !worker_.backend().choices) return;
    for (const std::string& line : worker_.backend().choices()) log_info("chosen: ", line);
  }

  static bool due(Index step, Index every) { return every > 0 && step % every == 0; }

  // The next number of completed steps at which there is something to do between steps. A schedule
  // whose steps overlap runs to there without draining.
  Index pause_after(Index step) const {
    if (overlap_ == 0) return step + 1;
    Index end = config_.train.steps;
    for (const Index every : {validation_ ? config_.train.eval_every : 0,
                              config_.train.sample_every, config_.checkpoint.every})
      if (every > 0) end = std::min(end, (step / every + 1) * every);
    return end;
  }

  // Trains on from `step` to `end`, or to where a stop request ends it; `step` is what was reached.
  bool train_to(Index& step, Index end) {
    bool stop = false;
    auto begin = std::chrono::steady_clock::now();
    std::vector<TraceEvent> trace;
    const bool traced =
        std::ranges::any_of(config_.log.trace_steps, [&](Index s) { return step < s && s <= end; });
    if (traced) worker_.trace(&traced_steps_, &trace);
    step = worker_.train_steps(*training_, step, end, [&](Index done, const StepResult& result) {
      if (metrics_) pending_.push_back({done + 1, result, seconds_since(begin)});
      begin = std::chrono::steady_clock::now();
      worker_.set_timeout_scale(1);
      stop = stop || result.stop;
      if (overlap_ > 0) report();
      return stop;
    });
    if (traced) {
      worker_.trace(nullptr, nullptr);
      write_traces(worker_.comm(), config_.log.directory, traced_steps_, trace);
    }
    if (overlap_ == 0 && !pending_.empty()) pending_.back().seconds += seconds_since(begin);
    report();
    if (inputs_.after_step) inputs_.after_step(worker_, step);
    return stop;
  }

  void report() {
    for (const Pending& p : pending_) metrics_->step(p.step, p.result, p.seconds);
    pending_.clear();
  }

  bool evaluation_due(Index step) const {
    const Index every = config_.train.eval_every;
    return validation_ && every > 0 && (step % every == 0 || step == config_.train.steps);
  }

  // The evaluation that a stop signal prevented before the run resumed.
  bool catch_up_evaluation() {
    if (start_.step == 0 || !evaluation_due(start_.step)) return false;
    const bool missing = metrics_ && !metrics_->start_is_evaluated();
    if (broadcast_text(worker_.comm(), missing ? "missing" : "", "whether an evaluation is missing")
            .empty())
      return false;
    return evaluate(start_.step);
  }

  bool evaluate(Index step) {
    Index samples = checked_mul(config_.train.eval_batches, config_.batch());
    if (validation_->size() > 0) samples = std::min(samples, validation_->size());
    const Worker::Evaluation result = worker_.evaluate(*validation_, samples);
    if (metrics_ && !result.stop) metrics_->evaluation(step, result.loss, samples);
    return result.stop;
  }

  void sample(Index step) {
    const std::string text = sample_text(worker_, config_, static_cast<std::uint64_t>(step));
    if (metrics_) metrics_->event(step, "sample", text);
  }

  void save(Index step, bool final) {
    if (config_.checkpoint.directory.empty()) return;
    const Index consumed = start_.consumed_samples + (step - start_.step) * config_.batch();
    const bool saved = save_checkpoint(worker_, config_, inputs_.identity, step, consumed, run_id_);
    if (saved && metrics_)
      metrics_->event(step, "checkpoint",
                      (Path(config_.checkpoint.directory) / checkpoint::step_name(step)).string());
    if (saved) return;
    ENSURE(!final, "the last checkpoint could not be written to ", config_.checkpoint.directory,
           " (the reason stands above); older checkpoints are untouched: make room and run the "
           "same command again");
    if (lead_)
      log_warning("no checkpoint at step ", step,
                  "; training goes on, older checkpoints are untouched");
  }

  ExitCode stopped(Index step) const {
    ENSURE(!config_.checkpoint.directory.empty(), "stopped by a signal after step ", step,
           "; nothing was saved, because checkpoint.directory is empty");
    if (lead_)
      std::cout << "stopped by a signal after step " << step << "; the same command continues"
                << std::endl;
    return ExitCode::Stopped;
  }

  const Config& config_;
  const TrainOptions& options_;
  const RunInputs& inputs_;
  const Programs& programs_;
  bool lead_, announced_ = false;
  Worker worker_;
  std::string run_id_;
  std::unique_ptr<SampleSource> training_, validation_;
  Resumed start_;
  std::unique_ptr<Metrics> metrics_;
  struct Pending {
    Index step;
    StepResult result;
    double seconds;
  };
  std::vector<Pending> pending_;     // completed steps that are not reported yet
  const int overlap_;                // steps in flight beside the one that begins
  std::vector<Index> traced_steps_;  // counted from 0
};

// Directories made, locked against a second run, and what identifies this one written down. By rank
// 0.
struct RunFiles {
  std::optional<DirectoryLock> checkpoints, log;
  RunFiles(const Config& config, const RunIdentity& identity, const std::string& resume) {
    if (!config.checkpoint.directory.empty()) take_checkpoints(config.checkpoint.directory, resume);
    if (!config.log.directory.empty()) take_log(config, identity);
  }

 private:
  void take_checkpoints(const std::string& directory, const std::string& resume) {
    make_directories(directory);
    checkpoints.emplace(directory, ".lock", "the checkpoint directory");
    // Two lines of training in one place: "the newest" would later be the wrong one's.
    const auto there = checkpoint::list_checkpoints(directory);
    if (there.empty() || resume == "auto") return;
    const Index start =
        resume == "never" ? 0 : checkpoint::Checkpoint::open(resume).manifest().step;
    if (resume == "never" || there.back().step > start)
      FailUsage("--resume ", resume, " starts from step ", start, ", but ", directory,
                " holds checkpoints up to step ", there.back().step,
                "; name another checkpoint.directory, or move them away");
  }

  void take_log(const Config& config, const RunIdentity& identity) {
    const Path directory = config.log.directory;
    make_directories(directory);
    log.emplace(directory, ".lock", "the log directory");
    write_file_atomically(directory / "config.json", config_to_json(config).dump(2) + "\n");
    write_file_atomically(directory / "build.json", Json(identity.environment).dump(2) + "\n");
  }
};

// `inputs_here` is called by every worker, within the job: what fails there ends all of it.
ExitCode train_with(const Config& config, const TrainOptions& options,
                    const std::function<const RunInputs&()>& inputs_here) {
  const Programs programs = build_programs(config);
  ExitCode code = ExitCode::Done;
  run_workers(config, [&](Communicator& comm) {
    const RunInputs& inputs = inputs_here();
    std::optional<RunFiles> files;
    if (comm.rank() == 0 && !options.check) files.emplace(config, inputs.identity, options.resume);
    Run run(config, options, inputs, programs, comm);
    const ExitCode mine = run.train();
    if (comm.rank() == 0 || comm.transport() == "mpi") code = mine;
  });
  return code;
}

}  // namespace

ExitCode train_on(const Config& config, const TrainOptions& options, const RunInputs& inputs) {
  return train_with(config, options, [&]() -> const RunInputs& { return inputs; });
}

// A rank opens its inputs once MPI runs: one that ended before, because its node lacks a file,
// would leave the others waiting in MPI_Init.
ExitCode train(const Config& config, const TrainOptions& options) {
  catch_stop_signals();
  if (choose_transport(config) == "local")
    return train_on(config, options, open_run_inputs(config));
  std::optional<RunInputs> inputs;  // one worker per process
  return train_with(config, options,
                    [&]() -> const RunInputs& { return inputs.emplace(open_run_inputs(config)); });
}

}  // namespace chimera::train
