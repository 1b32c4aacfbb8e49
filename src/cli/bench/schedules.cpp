// chimera bench schedule: measured against simulated.
#include "bench/benchmarks.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "chimera/base/format.h"
#include "chimera/base/json.h"
#include "chimera/base/threads.h"
#include "chimera/bench/schedules.h"
#include "chimera/comm/collectives.h"
#include "chimera/runtime/launch.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/compare.h"
#include "schedule/options.h"

namespace chimera::cli {
namespace {

constexpr int kBetweenCases = 103;  // channel

struct ScheduleArguments {
  ScheduleOptions options;
  double forward_ms = 20, backward_ms = 0, weight_ms = 0, update_ms = 0, message_us = 0;
  Index steps = 5, samples = 8;
  bool real = false;
  std::string json;
};

struct Row {
  std::string name;
  int micro_batches = 1;
  bool overlapping = false;
  std::string refusal;
  double measured = 0, simulated = 0, measured_bubble = 0, simulated_bubble = 0;
  double ratio() const { return measured / simulated; }
};

schedule::Costs sleeping_costs(const ScheduleArguments& a) {
  const double forward = a.forward_ms / 1e3;
  const double backward = a.backward_ms > 0 ? a.backward_ms / 1e3 : 2 * forward;
  const double weight = a.weight_ms > 0 ? a.weight_ms / 1e3 : backward / 2;
  if (weight > backward)
    FailUsage("--weight-ms is ", a.weight_ms,
              "; it is the weight gradient's part of --backward-ms, ", 1e3 * backward,
              ": use less than that");
  schedule::Costs costs;
  costs.forward = {forward};
  costs.backward_input = {backward - weight};
  costs.backward_weight = {weight};
  costs.update = {a.update_ms / 1e3};
  costs.inter_node.latency = costs.intra_node.latency = a.message_us / 1e6;
  return costs;
}

std::vector<schedule::NamedRequest> requests_of(const ScheduleArguments& a) {
  const schedule::Request& r = a.options.request;
  std::vector<schedule::NamedRequest> out;
  if (r.schedule == "all")
    out = schedule::each_schedule(r);
  else
    out = {{concat(r.schedule, r.pipeline_pairs > 1 ? concat(" f=", r.pipeline_pairs) : "",
                   r.scaling != "direct" ? " " + r.scaling : "", r.split_backward ? " split" : "",
                   r.overlap_steps ? " overlap" : ""),
            r}};
  for (schedule::NamedRequest& one : out)
    one.request.micro_batches = micro_batches_of_step(one.request);
  return out;
}

// Blocks as wide as the quickstart's, two per stage.
Config computing_config(const schedule::Request& r, const ScheduleArguments& a) {
  Config config = bench::sleeping_config(r);
  model::ModelConfig& m = config.model;
  m.n_layer *= 2;
  m.n_head = 4, m.n_embd = 160, m.n_positions = 128, m.vocab_size = 4096;
  config.parallel.micro_batch_size = a.samples;
  return config;
}

// Of one schedule; on every rank. What cannot run is a row that says why.
class Bench {
 public:
  Bench(const ScheduleArguments& arguments, const schedule::NamedRequest& named) : a_(arguments) {
    row_.name = named.name;
    row_.micro_batches = named.request.micro_batches;
    row_.refusal = schedule::refusal(named.request).text;
    if (!row_.refusal.empty()) return;
    try {
      bench_ = a_.real ? bench::computing_case(named.name, computing_config(named.request, a_))
                       : bench::sleeping_case(named.name, named.request, sleeping_costs(a_));
      row_.overlapping = bench_->programs.train.period > 0;
    } catch (const UsageError& error) {  // a search that finds none
      row_.refusal = error.what();
    }
  }
  const Row& row() const { return row_; }

  void run(Communicator& comm, Row& row) const {
    if (!bench_) return;
    barrier(comm, kBetweenCases, "all workers begin the next schedule");
    const bench::MeasuredSteps measured = a_.real ? bench::run_computing(*bench_, comm, a_.steps)
                                                  : bench::run_sleeping(*bench_, comm, a_.steps);
    if (comm.rank() != 0) return;
    const schedule::Simulation simulation =
        schedule::simulate(bench_->programs.train, measured.costs, {.causes = false});
    row.measured = measured.step_seconds;
    row.simulated = simulation.step_seconds;
    row.measured_bubble = bench::bubble_ratio(simulation, row.measured);
    row.simulated_bubble = bench::bubble_ratio(simulation, row.simulated);
  }

 private:
  const ScheduleArguments& a_;
  std::optional<bench::BenchCase> bench_;
  Row row_;
};

void print_head(const ScheduleArguments& a, Communicator& comm) {
  const schedule::Request& r = a.options.request;
  std::printf("D %d, W %d, %d workers (%s) on %d cores; ", r.depth, r.width, comm.size(),
              comm.transport().c_str(), available_cores());
  if (a.real) {
    std::printf("stages compute, B %ld; simulated with the means of what was traced\n\n",
                static_cast<long>(a.samples));
  } else {
    const schedule::Costs costs = sleeping_costs(a);
    std::printf("stages sleep: F %g, B %g + %g, update %g ms per micro-batch; messages %g us\n\n",
                1e3 * costs.forward[0], 1e3 * costs.backward_input[0],
                1e3 * costs.backward_weight[0], 1e3 * costs.update[0], a.message_us);
  }
  std::printf(
      "| schedule | N | measured ms per step | simulated | ratio | bubble measured | simulated |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n");
  std::fflush(stdout);
}

void print(const Row& row) {
  if (row.refusal.empty())
    std::printf("| %s%s | %d | %.2f | %.2f | %.3f | %s | %s |\n", row.name.c_str(),
                row.overlapping ? " *" : "", row.micro_batches, 1e3 * row.measured,
                1e3 * row.simulated, row.ratio(), percent(row.measured_bubble).c_str(),
                percent(row.simulated_bubble).c_str());
  else
    std::printf("| %s | %d | %s | | | | |\n", row.name.c_str(), row.micro_batches,
                row.refusal.c_str());
  std::fflush(stdout);
}

std::string to_json(const ScheduleArguments& a, const std::vector<Row>& rows, Communicator& comm) {
  const schedule::Request& r = a.options.request;
  Json out;
  out["depth"] = r.depth, out["width"] = r.width, out["transport"] = comm.transport();
  out["cores"] = available_cores(), out["real"] = a.real, out["steps"] = a.steps;
  if (!a.real) out["costs"] = Json::parse(schedule::write_costs(sleeping_costs(a)));
  out["rows"] = Json::array();
  for (const Row& row : rows) {
    Json& json = out["rows"].emplace_back();
    json["schedule"] = row.name, json["micro_batches"] = row.micro_batches;
    if (!row.refusal.empty()) {
      json["refusal"] = row.refusal;
      continue;
    }
    json["overlapping"] = row.overlapping;
    json["measured_seconds"] = row.measured, json["simulated_seconds"] = row.simulated;
    json["ratio"] = row.ratio();
    json["measured_bubble"] = row.measured_bubble, json["simulated_bubble"] = row.simulated_bubble;
  }
  return out.dump(2) + "\n";
}

void bench_schedules(const ScheduleArguments& a) {
  if (!a.json.empty()) check_writable(a.json);
  Config job;
  job.parallel.request.depth = a.options.request.depth;
  job.parallel.request.width = a.options.request.width;
  choose_transport(job);  // refuses a wrong number of processes
  std::vector<Bench> cases;
  for (const schedule::NamedRequest& named : requests_of(a)) cases.emplace_back(a, named);
  if (std::ranges::none_of(cases, [](const Bench& b) { return b.row().refusal.empty(); }))
    FailUsage(cases[0].row().refusal);
  job.device.threads = a.real ? 1 : 0;
  run_workers(job, [&](Communicator& comm) {
    const bool first = comm.rank() == 0;
    std::vector<Row> rows;
    if (first) print_head(a, comm);
    for (const Bench& bench : cases) {
      Row row = bench.row();
      bench.run(comm, row);
      if (first) print(row);
      rows.push_back(row);
    }
    if (!first) return;
    std::printf("\n* steps overlap: per step in steady state\n");
    if (!a.json.empty()) write_file_atomically(a.json, to_json(a, rows, comm));
  });
}

}  // namespace

void add_schedule_benchmark(CLI::App& bench) {
  auto a = std::make_shared<ScheduleArguments>();
  CLI::App* sub = bench.add_subcommand(
      "schedule", "Schedules on the real executor and transport, measured against simulated");
  a->options.request.schedule = "all";
  add_request_options(*sub, a->options);
  const auto positive = CLI::Range(1e-3, 1e6);
  const auto time = [&](const char* name, double& value, const char* meaning) {
    sub->add_option(name, value, meaning)->check(positive);
  };
  time("--forward-ms", a->forward_ms, "a stage's forward of one micro-batch (default: 20)");
  time("--backward-ms", a->backward_ms, "its backward (default: 2 forwards)");
  time("--weight-ms", a->weight_ms, "the weight gradient's part of it (default: half)");
  sub->add_option("--update-ms", a->update_ms, "an update of a stage (default: 0)")
      ->check(CLI::Range(0.0, 1e6));
  sub->add_option("--message-us", a->message_us, "simulated time of a message (default: 0)")
      ->check(CLI::Range(0.0, 1e9));
  sub->add_option("--steps", a->steps, "counted steps, at least")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  sub->add_flag("--real", a->real,
                "stages compute; the simulation gets the times that were traced");
  sub->add_option("--samples", a->samples, "with --real: sequences per micro-batch")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  sub->add_option("--json", a->json, "write the rows to this file");
  sub->footer(
      "Example:\n  chimera bench schedule -D 8 --forward-ms 20\n  mpirun -n 4 chimera bench "
      "schedule -D 4 --schedule chimera\n  chimera bench schedule --real -D 2 -N 8");
  sub->callback([a, sub] {
    complete_request(*sub, a->options);
    bench_schedules(*a);
  });
}

}  // namespace chimera::cli
