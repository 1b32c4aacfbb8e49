#pragma once
// The memory of one worker by owner and name: shape arithmetic over the layouts that layers
// declare. Workers allocate from these numbers, and the planner predicts with them, so what is
// predicted is what is used, to the byte.
#include <map>
#include <string>
#include <vector>

#include "chimera/model/stage.h"
#include "chimera/schedule/instr.h"

namespace chimera::plan {

struct MemoryItem {
  std::string owner, name;  // "parameters", "buffers", "workspace"
  Index bytes = 0;
};

// What memory depends on beside the schedules.
struct Shape {
  model::ModelConfig model;
  std::vector<Index> layers;  // of each of the vD stages
  Index samples = 1, T = 0;   // B, tokens of a sample
  nn::Recompute recompute = nn::Recompute::None;
  DType type = DType::F32;  // of computation: activations, messages, weights
};

// "none", "selective", "full"; UsageError for anything else.
nn::Recompute parse_recompute(const std::string& name);

// The parts of one stage, or of the tied matrix, that do not depend on who holds it.
struct StageBytes {
  nn::ParameterLayout parameters;  // as F32: gradients, moments, master weights
  DType type = DType::F32;         // of the weights
  Index boundary_buffer = 0, activation_buffer = 0,
        workspace = 0;  // of one buffer of `span` micro-batches
  Index samples = 0;    // B
};
// `split`: the backward is two instructions. `span`: micro-batches of one buffer. Stage vD (where
// the model is tied): the matrix, without buffers.
StageBytes stage_bytes(const Shape& shape, int stage, bool split, Index span);
// The same for every stage of a schedule; the tied matrix last.
std::vector<StageBytes> all_stage_bytes(const Shape& shape, const schedule::Schedule& train);

// Shares of optimizer state and of a reduction (ZeRO 1): the element where shard `member` of
// `members` begins, 0 … members; the last is the layout's bytes / 4. Cut where a block of
// kShardBlock elements (counted from each tensor's first) begins, as close to equal parts as such
// borders come.
inline constexpr Index kShardBlock = 4096;
Index shard_border(const nn::ParameterLayout& parameters, Index members, Index member);
// All of them: members + 1 numbers, ascending.
std::vector<Index> shard_borders(const nn::ParameterLayout& parameters, Index members);

// What one worker keeps of one stage.
struct StageStateBytes {
  int stage = 0;             // vD: the tied matrix
  Index copy = 0;            // bytes of its parameters in F32: of one accumulator of gradients
  DType type = DType::F32;   // of the weights
  Index versions = 1;        // copies of the weights
  Index accumulators = 0;    // gradients: one per (pipe, use) on this worker
  Index gradient_steps = 1;  // steps whose gradients are held at once
  Index contributions = 1, members = 1, member = 0;  // of the reduction over all replicas
  Index moments = 0;  // bytes of each of Adam's two, of the whole or of this worker's shard
  Index scratch = 0;  // bytes that its reduction needs while under way
  // Bytes of one copy of the weights; of what 16-bit weights are the rounding of (fp32, sharded as
  // the moments; 0 where the weights are F32 themselves).
  Index weights() const { return copy / size_of(DType::F32) * size_of(type); }
  Index master() const { return type == DType::F32 ? 0 : moments; }
};

struct WorkerFootprint {
  std::vector<StageStateBytes> held;  // ascending stage
  Index boundary_buffers = 0, boundary_buffer_bytes = 0;
  Index activation_buffers = 0, activation_buffer_bytes = 0;
  Index workspace = 0;
  Index reductions = 0;  // scratch: one sum is under way at a time
  Index losses = 0;      // of the samples of every step in flight
  Index weights() const, gradients() const, moments() const, masters() const;
  std::vector<MemoryItem> items() const;
  Index bytes() const;  // of all items
};

// Of worker `worker` (0 … D-1) of replica `replica` (0 … W-1). `evaluation` may be null; it runs
// when no training step is in flight, in the same buffers.
WorkerFootprint worker_footprint(const std::vector<StageBytes>& stages,
                                 const schedule::Schedule& train,
                                 const schedule::Schedule* evaluation, int replica, int worker);

// "3.2 GiB".
std::string bytes_text(Index bytes);

}  // namespace chimera::plan
