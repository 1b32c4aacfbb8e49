#include "chimera/cli/schedule_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include "chimera/base/file.h"
#include "chimera/base/threads.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "chimera/schedule/sweep.h"

namespace chimera::cli {
namespace {

using namespace schedule;

constexpr Index kLargestFile = Index{16} << 20;

struct Options {
  Request request;
  std::string format = "text", output, file;
  std::vector<int> backward = {1, 2};
  bool all = false, depth_given = false, micro_batches_given = false;
};

std::string schedule_help() {
  std::string out;
  for (const ScheduleInfo& info : known_schedules())
    out += concat("  ", info.name, std::string(10 - std::string(info.name).size(), ' '), info.rule,
                  " (", info.reference, ")\n");
  return out;
}

void write_output(const Options& o, const std::string& content) {
  if (o.output.empty()) {
    std::cout << content << std::flush;
    ENSURE(std::cout.good(), "standard output cannot be written");
  } else {
    write_file_atomically(o.output, content);
  }
}

// Equal slots for a backward as long as a forward, as the paper draws them; otherwise each
// computation as soon as its inputs are there.
std::vector<TitledTimetable> timetables(const Schedule& s, const std::vector<int>& backward) {
  const ComputePlan plan = computations(s);
  std::vector<TitledTimetable> out;
  for (const int b : backward) {
    if (b < 1 || b > 100) FailUsage("--backward is ", b, "; it must be 1 to 100 times a forward");
    if (b == 1)
      out.push_back({"equal slots (forward 1, backward 1)", at_ticks(plan)});
    else
      out.push_back({concat("backward ", b, " times forward, each as soon as possible"),
                     as_soon_as_possible(plan, {.forward = 1, .backward = b})});
  }
  return out;
}

std::string peak_text(const VerifyReport& report) {
  std::string in_flight, slots;
  for (const WorkerReport& w : report.workers) {
    in_flight += " " + std::to_string(w.in_flight);
    slots += " " + std::to_string(w.slots);
  }
  return concat("\nmost micro-batches in flight per worker:", in_flight,
                "\nslots per worker:", slots, "\n");
}

void show(const Options& o) {
  const Schedule s = build_schedule(o.request);
  if (o.format == "text")
    write_output(o, render_text(s, timetables(s, o.backward)) + peak_text(verify(s)));
  else if (o.format == "svg")
    write_output(o, render_svg(s, timetables(s, o.backward)));
  else if (o.format == "instructions")
    write_output(o, render_instructions(s));
  else if (o.format == "json")
    write_output(o, to_json(s));
  else
    FailUsage("--format '", o.format, "' is unknown; choose text, svg, instructions or json");
}

void print_proof(const std::string& name, const Schedule& s) {
  const VerifyReport report = verify(s);
  Index messages = 0, reductions = 0;
  for (const WorkerReport& w : report.workers) {
    messages += w.messages;
    reductions += w.reductions;
  }
  std::cout << name << ": proved. " << report.workers.size() << " workers, " << report.instructions
            << " instructions, " << messages << " messages, " << reductions
            << " parts in reductions; every dependency met, no deadlock under blocking rendezvous, "
               "equal order on every link and in every group, gradients added in ascending order, "
               "nothing left live"
            << peak_text(report) << std::flush;
}

void verify_file(const std::string& file) {
  const Schedule s = from_json(read_file(file, kLargestFile), file);
  try {
    verify(s);
  } catch (const Error& error) {
    Fail(file, ": not a schedule that can be run: ", error.what());
  }
  print_proof(file, s);
}

void print_sweep(int depth, int micro_batches) {
  if (depth < 1 || depth > 64 || micro_batches < 1 || micro_batches > 256)
    FailUsage("verify --all to D = ", depth, ", N = ", micro_batches,
              "; choose D from 1 to 64 and N from 1 to 256");
  set_team_size(available_cores());
  const auto start = std::chrono::steady_clock::now();
  const std::vector<SweepRow> rows = verify_all(depth, micro_batches);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("every schedule to D = %d, N = %d, with all f\n", depth, micro_batches);
  std::printf("%-10s %7s %10s %12s %13s %12s %10s %6s\n", "schedule", "depths", "schedules",
              "evaluations", "instructions", "messages", "in flight", "slots");
  for (const SweepRow& r : rows)
    std::printf("%-10s %7d %10lld %12lld %13lld %12lld %10d %6d\n", r.schedule.c_str(), r.depths,
                static_cast<long long>(r.schedules), static_cast<long long>(r.evaluations),
                static_cast<long long>(r.instructions), static_cast<long long>(r.messages),
                r.in_flight, r.slots);
  std::printf(
      "proved for each: dependencies, no deadlock under blocking rendezvous, equal order on links "
      "and in "
      "groups,\nascending gradient order, slots, reductions before verdict before updates, nothing "
      "left "
      "live (%.1f s)\n",
      seconds);
}

void verify_command(const Options& o) {
  if (!o.file.empty() && o.all) FailUsage("verify takes --file or --all, not both");
  if (!o.file.empty()) return verify_file(o.file);
  if (o.all)
    return print_sweep(o.depth_given ? o.request.depth : 16,
                       o.micro_batches_given ? o.request.micro_batches : 48);
  const Schedule s = build_schedule(o.request);
  print_proof(concat(s.name, ", D = ", s.depth, ", N = ", s.micro_batches), s);
}

void add_request(CLI::App& sub, Options& o) {
  sub.add_option("-s,--schedule", o.request.schedule, "one of " + schedule_names())
      ->capture_default_str();
  sub.add_option("-D,--depth", o.request.depth, "pipeline depth")->capture_default_str();
  sub.add_option("-N,--micro-batches", o.request.micro_batches,
                 "micro-batches per step (default: D)");
  sub.add_option("-f,--pipeline-pairs,--f", o.request.pipeline_pairs,
                 "chimera: pipelines in each direction, a divisor of D/2")
      ->capture_default_str();
  sub.add_option("-W,--width", o.request.width, "replicas of the pipelines")->capture_default_str();
  sub.add_flag("--tied", o.request.tied, "the embedding matrix is also the head's");
}

// What was not given follows from what was.
void complete(const CLI::App& sub, Options& o) {
  o.depth_given = sub.count("--depth") > 0;
  o.micro_batches_given = sub.count("--micro-batches") > 0;
  if (!o.micro_batches_given) o.request.micro_batches = std::max(1, o.request.depth);
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("schedule", "Draw and prove pipeline schedules; no GPU, no MPI");
  command->require_subcommand(1);
  command->footer("Schedules:\n" + schedule_help() +
                  "Example:\n  chimera schedule show -s chimera -D 8 -N 16");

  auto options = std::make_shared<Options>();
  CLI::App* draw =
      command->add_subcommand("show", "Who computes what and when, with the bubbles counted");
  add_request(*draw, *options);
  draw->add_option("--backward", options->backward,
                   "a backward's length in forwards: 1 draws equal slots (default: both 1 and 2)");
  draw->add_option("--format", options->format,
                   "text, svg, instructions (what the workers execute) or json")
      ->capture_default_str();
  draw->add_option("-o,--output", options->output, "write to this file");
  draw->footer(
      "Schedules:\n" + schedule_help() +
      "Example:\n  chimera schedule show -s chimera -D 4 -N 4 --format svg -o chimera.svg");
  draw->callback([options, draw] {
    complete(*draw, *options);
    show(*options);
  });

  CLI::App* prove =
      command->add_subcommand("verify", "Prove that a schedule can be run as it stands");
  add_request(*prove, *options);
  prove->add_flag("--all", options->all, "every schedule to D = 16, N = 48 (or to -D and -N)");
  prove->add_option("--file", options->file, "a schedule as `show --format json` writes it");
  prove->footer(
      "Example:\n  chimera schedule verify --all\n  chimera schedule verify --file mine.json");
  prove->callback([options, prove] {
    complete(*prove, *options);
    verify_command(*options);
  });
}

}  // namespace chimera::cli
