#include "measured_costs.h"

#include <algorithm>
#include <map>
#include <set>

#include "chimera/comm/collectives.h"

namespace chimera::bench {
namespace {

using schedule::Op;

constexpr int kChannel = 102;
constexpr Op kMeasured[] = {Op::Forward,       Op::Recompute,      Op::Backward,
                            Op::BackwardInput, Op::BackwardWeight, Op::Update};
constexpr std::size_t kOps = std::size(kMeasured);

// Sums and counts by (operation, group), the step synchronisation, then by (rank, group) the mean
// reduction.
class Table {
 public:
  Table(std::size_t groups, std::size_t ranks)
      : groups_(groups), values_(2 * (kOps * groups + 1) + ranks * groups) {}

  double* sum(std::size_t op, std::size_t group) { return &values_[2 * (op * groups_ + group)]; }
  double* step_sync() { return &values_[2 * kOps * groups_]; }
  double& reduction(std::size_t rank, std::size_t group) {
    return values_[2 * (kOps * groups_ + 1) + rank * groups_ + group];
  }
  std::vector<double>& values() { return values_; }

  static void add(double* sum, double seconds, double count) {
    sum[0] += seconds;
    sum[1] += count;
  }
  static double mean(const double* sum) { return sum[1] > 0 ? sum[0] / sum[1] : 0; }

 private:
  std::size_t groups_;
  std::vector<double> values_;
};

bool is_reduction(Op op) { return op == Op::AllReduceWait || op == Op::ReduceScatterWait; }

void fill(Table& table, const std::vector<TraceEvent>& events, std::size_t rank) {
  std::map<std::size_t, std::pair<double, double>> reductions;  // by group: seconds, count
  for (const TraceEvent& event : events) {
    const double seconds = event.end - event.begin;
    const auto group = static_cast<std::size_t>(std::max(0, event.instr.stage));
    if (event.background && is_reduction(event.instr.op)) {
      reductions[group].first += seconds;
      reductions[group].second += 1;
    }
    if (event.background) continue;
    if (event.instr.op == Op::StepSyncStart) Table::add(table.step_sync(), seconds, 1);
    if (event.instr.op == Op::GradNorm) Table::add(table.step_sync(), seconds, 0);  // part of it
    for (std::size_t op = 0; op < kOps; ++op)
      if (event.instr.op == kMeasured[op])
        Table::add(table.sum(op, group), seconds,
                   event.instr.op == Op::Update ? 1 : event.instr.count);
  }
  for (const auto& [group, sum] : reductions) table.reduction(rank, group) = sum.first / sum.second;
}

}  // namespace

int members_of(const schedule::Schedule& schedule, int group) {
  std::set<int> workers;
  for (const schedule::Holder& holder : schedule.groups.at(static_cast<std::size_t>(group)).holders)
    workers.insert(holder.worker);
  return narrow<int>(std::ssize(workers)) * schedule.width;
}

schedule::Costs measured_costs(const std::vector<TraceEvent>& events,
                               const schedule::Schedule& schedule, Communicator& comm) {
  const std::size_t groups = schedule.groups.size(), ranks = static_cast<std::size_t>(comm.size()),
                    stages = static_cast<std::size_t>(schedule.stages());
  Table table(groups, ranks);
  fill(table, events, static_cast<std::size_t>(comm.rank()));
  sum_over_ranks(comm, kChannel, table.values(), "the measured times of all stages");

  schedule::Costs costs;
  const auto means = [&](std::size_t op, std::size_t count) {
    std::vector<double> out;
    for (std::size_t group = 0; group < count; ++group)
      out.push_back(Table::mean(table.sum(op, group)));
    return out;
  };
  costs.forward = means(0, stages);
  costs.recompute = means(1, stages);
  costs.backward_input = means(3, stages);
  costs.backward_weight = means(4, stages);
  const std::vector<double> whole = means(2, stages);
  for (std::size_t s = 0; s < stages; ++s) costs.backward_input[s] += whole[s];
  costs.update = means(5, groups);
  costs.step_sync = Table::mean(table.step_sync());

  // As Rabenseifner's cost without latency: 2 (r - 1) / r * seconds_per_byte * bytes.
  costs.reduction_intra_node.seconds_per_byte = costs.reduction_inter_node.seconds_per_byte = 1;
  costs.gradient_bytes.assign(groups, 0);
  for (std::size_t group = 0; group < groups; ++group) {
    double shortest = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (const double seconds = table.reduction(rank, group); seconds > 0)
        shortest = shortest > 0 ? std::min(shortest, seconds) : seconds;
    const double members = members_of(schedule, static_cast<int>(group));
    if (schedule.has(Op::ReduceScatterStart)) costs.update[group] *= members;  // a shard each
    if (members > 1) costs.gradient_bytes[group] = shortest * members / (2 * (members - 1));
  }
  return costs;
}

}  // namespace chimera::bench
