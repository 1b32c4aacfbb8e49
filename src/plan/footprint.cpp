#include "chimera/plan/footprint.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

namespace chimera::plan {

using schedule::Group;
using schedule::Holder;
using schedule::Schedule;

nn::Recompute parse_recompute(const std::string& name) {
  if (name == "none") return nn::Recompute::None;
  if (name == "selective") return nn::Recompute::Selective;
  if (name == "full") return nn::Recompute::Full;
  FailUsage("recompute is \"", name, "\"; it must be none, selective or full");
}

StageBytes stage_bytes(const Shape& shape, int stage, bool split, Index span) {
  StageBytes out;
  out.type = shape.type;
  if (stage == static_cast<int>(shape.layers.size())) {
    out.parameters = model::tied_parameters(shape.model);
    return out;
  }
  const model::Stage declared(shape.model, shape.layers, stage, checked_mul(shape.samples, span),
                              shape.T, split, shape.recompute, shape.type);
  out.parameters = declared.parameters();
  out.samples = shape.samples;
  out.boundary_buffer = declared.boundary_layout().bytes();
  out.activation_buffer = declared.activation_layout().bytes();
  out.workspace = declared.workspace_layout().bytes();
  return out;
}

std::vector<StageBytes> all_stage_bytes(const Shape& shape, const Schedule& train) {
  const bool split = train.has(schedule::Op::BackwardWeight);
  const int span = train.span();
  std::vector<StageBytes> out;
  for (int s = 0; s < train.stages() + (train.tied ? 1 : 0); ++s)
    out.push_back(stage_bytes(shape, s, split, span));
  return out;
}

Index shard_border(const nn::ParameterLayout& parameters, Index members, Index member) {
  ENSURE(members >= 1 && member >= 0 && member <= members, "shard ", member, " of ", members);
  const Index total = parameters.layout.bytes() / size_of(DType::F32);
  // total * member / members without overflow, for any layout that fits in memory.
  const Index ideal = total / members * member + total % members * member / members;
  if (ideal == 0) return 0;
  const auto begin_of = [](const nn::Parameter& p) {
    return p.region.offset / size_of(DType::F32);
  };
  const std::vector<nn::Parameter>& list = parameters.parameters;
  const auto next = std::ranges::upper_bound(list, ideal, {}, begin_of);
  if (next == list.begin()) return 0;
  const nn::Parameter& in = *(next - 1);
  const Index blocks = ceil_div(in.region.size(), kShardBlock);
  const Index block = std::min((ideal - begin_of(in)) / kShardBlock, blocks - 1);
  const Index below = begin_of(in) + block * kShardBlock;
  const Index end = next == list.end() ? total : begin_of(*next);
  const Index above = block + 1 < blocks ? below + kShardBlock : end;
  return ideal - below <= above - ideal ? below : above;
}

std::vector<Index> shard_borders(const nn::ParameterLayout& parameters, Index members) {
  std::vector<Index> borders;
  for (Index m = 0; m <= members; ++m) borders.push_back(shard_border(parameters, members, m));
  return borders;
}

namespace {

// The largest number of elements that this member adds up: its chunk of a reduction.
Index chunk_elements(const StageStateBytes& held, const nn::ParameterLayout& parameters,
                     bool sharded) {
  if (sharded)
    return shard_border(parameters, held.members, held.member + 1) -
           shard_border(parameters, held.members, held.member);
  const Index elements = held.copy / size_of(DType::F32);
  return elements / held.members + (held.member < elements % held.members ? 1 : 0);
}

StageStateBytes held_bytes(const StageBytes& stage, const Group& group, const Schedule& s,
                           int replica, int worker, bool sharded) {
  StageStateBytes held;
  held.stage = group.stage;
  held.copy = stage.parameters.layout.bytes();
  held.type = stage.type;
  held.versions = s.versions.at(static_cast<std::size_t>(group.stage));
  for (const Holder& h : group.holders) held.accumulators += h.worker == worker;
  held.gradient_steps = s.accumulators.at(static_cast<std::size_t>(group.stage));
  held.contributions = s.contributions(group);
  std::set<int> workers;  // of one replica, each once; members ascend by replica, then worker
  for (const Holder& h : group.holders) workers.insert(h.worker);
  const Index before = std::distance(workers.begin(), workers.find(worker));
  held.members = std::ssize(workers) * s.width;
  held.member = std::ssize(workers) * replica + before;
  const Index chunk = chunk_elements(held, stage.parameters, sharded);
  held.moments = sharded ? chunk * size_of(DType::F32) : held.copy;
  if (held.contributions > 1)
    held.scratch = checked_mul(chunk * size_of(DType::F32), held.contributions - held.accumulators);
  return held;
}

Index pool(const std::vector<int>& train, const std::vector<int>* evaluation, std::size_t worker) {
  return std::max(train.at(worker), evaluation ? evaluation->at(worker) : 0);
}

}  // namespace

WorkerFootprint worker_footprint(const std::vector<StageBytes>& stages, const Schedule& train,
                                 const Schedule* evaluation, int replica, int worker) {
  const bool sharded =
      std::ranges::any_of(train.programs.at(static_cast<std::size_t>(worker)).body,
                          [](const auto& in) { return in.op == schedule::Op::ReduceScatterStart; });
  WorkerFootprint out;
  for (const Group& group : train.groups) {
    if (std::ranges::none_of(group.holders, [&](const Holder& h) { return h.worker == worker; }))
      continue;
    const StageBytes& stage = stages.at(static_cast<std::size_t>(group.stage));
    out.held.push_back(held_bytes(stage, group, train, replica, worker, sharded));
    out.reductions = std::max(out.reductions, out.held.back().scratch);
    out.boundary_buffer_bytes = std::max(out.boundary_buffer_bytes, stage.boundary_buffer);
    out.activation_buffer_bytes = std::max(out.activation_buffer_bytes, stage.activation_buffer);
    out.workspace = std::max(out.workspace, stage.workspace);
  }
  const Index batch = checked_mul(stages.front().samples, Index{train.micro_batches} * train.width);
  out.losses = checked_mul(batch * size_of(DType::F64), train.lag() + 2);
  const auto w = static_cast<std::size_t>(worker);
  out.boundary_buffers =
      pool(train.boundary_buffers, evaluation ? &evaluation->boundary_buffers : nullptr, w);
  out.activation_buffers =
      pool(train.activation_buffers, evaluation ? &evaluation->activation_buffers : nullptr, w);
  return out;
}

Index WorkerFootprint::weights() const {
  Index sum = 0;
  for (const StageStateBytes& h : held) sum += checked_mul(h.weights(), h.versions);
  return sum;
}
Index WorkerFootprint::gradients() const {
  Index sum = 0;
  for (const StageStateBytes& h : held)
    sum += checked_mul(h.copy, h.accumulators * h.gradient_steps);
  return sum;
}
Index WorkerFootprint::moments() const {
  Index sum = 0;
  for (const StageStateBytes& h : held) sum += 2 * h.moments;
  return sum;
}

Index WorkerFootprint::masters() const {
  Index sum = 0;
  for (const StageStateBytes& h : held) sum += h.master();
  return sum;
}

std::vector<MemoryItem> WorkerFootprint::items() const {
  std::vector<MemoryItem> list = {{"parameters", "weights", weights()}};
  if (masters() > 0) list.push_back({"parameters", "master weights", masters()});
  list.insert(
      list.end(),
      {{"parameters", "gradients", gradients()},
       {"parameters", "Adam moments", moments()},
       {"buffers", concat(activation_buffers, " activation buffers of ", activation_buffer_bytes),
        checked_mul(activation_buffers, activation_buffer_bytes)},
       {"buffers", concat(boundary_buffers, " boundary buffers of ", boundary_buffer_bytes),
        checked_mul(boundary_buffers, boundary_buffer_bytes)},
       {"workspace", "layers", workspace},
       {"workspace", "reductions", reductions},
       {"workspace", "sums per sample", losses}});
  return list;
}

Index WorkerFootprint::bytes() const {
  Index sum = 0;
  for (const MemoryItem& item : items()) sum = checked_add(sum, item.bytes);
  return sum;
}

std::string bytes_text(Index bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace chimera::plan
