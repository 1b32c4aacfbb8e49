#pragma once
// What the schedule commands share: the request's options, times and links, the output.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chimera/schedule/generate.h"
#include "chimera/schedule/simulate.h"

namespace CLI {
class App;
}

namespace chimera::cli {

struct ScheduleOptions {
  schedule::Request request;
  std::string format = "text", output, file;
  std::vector<int> backward = {1, 2};  // show: in forwards
  bool all = false, depth_given = false, micro_batches_given = false;

  // simulate, compare: seconds, bytes, bytes per second. What is given replaces the file's.
  std::string costs_file;
  std::optional<double> forward, backward_seconds, weight, recompute_seconds, update, step_sync;
  std::optional<double> message_bytes, gradient_bytes, contention;
  std::optional<double> latency, bandwidth, intra_latency, intra_bandwidth;
  std::optional<int> workers_per_node;
  bool blocking_sends = false, inline_reductions = false, buffered = false;
  int steps = 0;
};

// -s, -D, -N and everything else a Request has.
void add_request_options(CLI::App& command, ScheduleOptions& options);
void add_cost_options(CLI::App& command, ScheduleOptions& options);
void add_output_options(CLI::App& command, ScheduleOptions& options, const std::string& formats);
// What was not given follows from what was.
void complete_request(const CLI::App& command, ScheduleOptions& options);
// The file's costs and what the options change; a whole backward is two forwards unless given.
schedule::Costs costs_of(const ScheduleOptions& options);
// To the file that -o names, all or nothing, or to standard output.
void write_output(const ScheduleOptions& options, const std::string& content);
[[noreturn]] void refuse_format(const ScheduleOptions& options, const std::string& formats);
std::string schedules_help();

using SharedOptions = std::shared_ptr<ScheduleOptions>;
void add_verify_command(CLI::App& schedule, const SharedOptions& options);
void add_simulate_command(CLI::App& schedule, const SharedOptions& options);
void add_compare_command(CLI::App& schedule, const SharedOptions& options);
void add_tradeoff_command(CLI::App& schedule, const SharedOptions& options);

}  // namespace chimera::cli
