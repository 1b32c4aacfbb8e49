#include "schedule/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>

#include "chimera/base/file.h"
#include "chimera/setup/config_fields.h"

namespace chimera::cli {
namespace {

constexpr Index kLargestFile = Index{16} << 20;

double amount(const char* option, double value) {
  if (!std::isfinite(value) || value < 0)
    FailUsage(option, " is ", value, "; it must be finite and not negative");
  return value;
}

void set(std::vector<double>& list, const char* option, const std::optional<double>& value) {
  if (value) list = {amount(option, *value)};
}
void set(double& number, const char* option, const std::optional<double>& value) {
  if (value) number = amount(option, *value);
}

void set_bandwidth(double& seconds_per_byte, const char* option,
                   const std::optional<double>& value) {
  if (!value) return;
  if (!std::isfinite(*value) || *value <= 0)
    FailUsage(option, " is ", *value, "; it must be above 0 bytes per second");
  seconds_per_byte = 1 / *value;
}

// Of the computations; the weight gradient is half of a backward unless given.
void set_times(schedule::Costs& costs, const ScheduleOptions& o) {
  set(costs.forward, "--forward", o.forward);
  if (o.forward && o.costs_file.empty())
    costs.backward_input = costs.backward_weight = costs.forward;
  if (o.backward_seconds) {
    const double whole = amount("--backward", *o.backward_seconds);
    const double weight = o.weight ? amount("--weight", *o.weight) : whole / 2;
    if (weight > whole)
      FailUsage("--weight is ", weight, "; it is the weight gradient's part of --backward, ", whole,
                ": use less than that");
    costs.backward_input = {whole - weight};
    costs.backward_weight = {weight};
  } else if (o.weight) {
    FailUsage("--weight is a part of --backward: give both");
  }
  set(costs.recompute, "--recompute-time", o.recompute_seconds);
  set(costs.update, "--update", o.update);
  set(costs.step_sync, "--step-sync", o.step_sync);
}

}  // namespace

std::string schedules_help() {
  std::size_t longest = 0;
  for (const schedule::ScheduleInfo& info : schedule::known_schedules())
    longest = std::max(longest, std::string(info.name).size());
  std::string out = "Schedules:\n";
  for (const schedule::ScheduleInfo& info : schedule::known_schedules())
    out += concat("  ", info.name, std::string(longest + 2 - std::string(info.name).size(), ' '),
                  info.rule, " (", info.reference, ")\n");
  return out;
}

void add_request_options(CLI::App& sub, ScheduleOptions& o) {
  using schedule::schedules_with, schedule::Traits;
  schedule::Request& r = o.request;
  Config defaults;
  const std::vector<Field> fields = config_fields(defaults);
  const auto key = [&](const char* name) { return meaning_of(fields, concat("parallel.", name)); };
  sub.add_option("-s,--schedule", r.schedule, "one of " + schedule::schedule_names())
      ->capture_default_str();
  sub.add_option("-D,--depth", r.depth, key("depth"))->capture_default_str();
  std::string own;  // of schedules whose steps have a number of their own
  for (const schedule::ScheduleInfo& info : schedule::known_schedules())
    if (const int count = info.traits.micro_batches_per_step; count > 0)
      own += concat("; ", info.name, ": ", count);
  sub.add_option("-N,--micro-batches", r.micro_batches,
                 concat("micro-batches per step (default: D", own, ")"));
  sub.add_option("-f,--pipeline-pairs,--f", r.pipeline_pairs, key("pipeline_pairs"))
      ->capture_default_str();
  sub.add_option("-W,--width", r.width, key("width"))->capture_default_str();
  sub.add_option("--scaling", r.scaling, key("scaling"))->capture_default_str();
  sub.add_flag("--split-backward", r.split_backward, key("split_backward"));
  sub.add_flag("--overlap-steps", r.overlap_steps, key("overlap_steps"));
  sub.add_option("-v,--virtual-stages", r.virtual_stages, key("virtual_stages"))
      ->capture_default_str();
  sub.add_option("--sync", r.gradient_sync, key("gradient_sync"))->capture_default_str();
  sub.add_option("--zero", r.zero_stage, key("zero_stage"))->capture_default_str();
  sub.add_flag("--recompute", r.recompute, "activations are made again before every backward");
  sub.add_flag("--tied", r.tied, meaning_of(fields, "model.tied_embeddings"));
}

void add_cost_options(CLI::App& sub, ScheduleOptions& o) {
  const auto group = [&](const char* name, const auto& add) { add(*sub.add_option_group(name)); };
  group("Times in seconds, for all stages", [&](CLI::App& g) {
    g.add_option("--costs", o.costs_file, "JSON with times per stage, links and the rest");
    g.add_option("--forward", o.forward, "of one micro-batch (default: 1)");
    g.add_option("--backward", o.backward_seconds, "of one micro-batch (default: 2 forwards)");
    g.add_option("--weight", o.weight, "the weight gradient's part of it (default: half)");
    g.add_option("--recompute-time", o.recompute_seconds, "of one micro-batch (default: forward)");
    g.add_option("--update", o.update, "of a stage, per step (default: 0)");
    g.add_option("--step-sync", o.step_sync, "everybody's agreement at the end (default: 0)");
  });
  group("Messages and reductions (default: free)", [&](CLI::App& g) {
    g.add_option("--message-bytes", o.message_bytes, "activations of one micro-batch");
    g.add_option("--gradient-bytes", o.gradient_bytes, "gradients of one stage");
    g.add_option("--latency", o.latency, "between nodes, seconds");
    g.add_option("--bandwidth", o.bandwidth, "between nodes, bytes per second");
    g.add_option("--intra-latency", o.intra_latency, "within a node");
    g.add_option("--intra-bandwidth", o.intra_bandwidth, "within a node");
    g.add_option("--workers-per-node", o.workers_per_node, "contiguous ranks (default: 1)");
    g.add_option("--contention", o.contention,
                 "share of a worker's speed that a reduction in the background takes");
    g.add_flag("--blocking-sends", o.blocking_sends, "a send returns when it has arrived");
    g.add_flag("--buffered", o.buffered, "a message moves before its receiver asks for it");
    g.add_flag("--inline-reductions", o.inline_reductions, "no communication thread");
  });
}

void add_output_options(CLI::App& sub, ScheduleOptions& o, const std::string& formats) {
  sub.add_option("--format", o.format, formats)->capture_default_str();
  sub.add_option("-o,--output", o.output, "write to this file");
}

void complete_request(const CLI::App& sub, ScheduleOptions& o) {
  o.depth_given = sub.count("--depth") > 0;
  o.micro_batches_given = sub.count("--micro-batches") > 0;
  if (o.micro_batches_given) return;
  o.request.micro_batches = std::max(1, o.request.depth);
  o.request.micro_batches = micro_batches_of_step(o.request);
}

schedule::Costs costs_of(const ScheduleOptions& o) {
  schedule::Costs costs;
  if (!o.costs_file.empty())
    costs = schedule::read_costs(read_file(o.costs_file, kLargestFile), o.costs_file);
  set_times(costs, o);
  set(costs.message_bytes, "--message-bytes", o.message_bytes);
  set(costs.gradient_bytes, "--gradient-bytes", o.gradient_bytes);
  set(costs.contention, "--contention", o.contention);
  for (schedule::LinkCost* link : {&costs.inter_node, &costs.reduction_inter_node}) {
    set(link->latency, "--latency", o.latency);
    set_bandwidth(link->seconds_per_byte, "--bandwidth", o.bandwidth);
  }
  for (schedule::LinkCost* link : {&costs.intra_node, &costs.reduction_intra_node}) {
    set(link->latency, "--intra-latency", o.intra_latency);
    set_bandwidth(link->seconds_per_byte, "--intra-bandwidth", o.intra_bandwidth);
  }
  if (o.workers_per_node) costs.workers_per_node = *o.workers_per_node;
  costs.blocking_sends = costs.blocking_sends || o.blocking_sends;
  costs.reductions_inline = costs.reductions_inline || o.inline_reductions;
  costs.rendezvous = costs.rendezvous && !o.buffered;
  return costs;
}

void write_output(const ScheduleOptions& o, const std::string& content) {
  if (o.output.empty()) {
    std::cout << content << std::flush;
    ENSURE(std::cout.good(), "standard output cannot be written");
  } else {
    write_file_atomically(o.output, content);
  }
}

void refuse_format(const ScheduleOptions& o, const std::string& formats) {
  FailUsage("--format '", o.format, "' is unknown; choose ", formats);
}

}  // namespace chimera::cli
