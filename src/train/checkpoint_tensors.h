#pragma once
// The tensors of a worker that go into a checkpoint, in fp32.
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "chimera/checkpoint/writer.h"
#include "chimera/runtime/worker.h"

namespace chimera::train {

inline constexpr int kCheckpointChannel = 98;

// In host memory, on the worker that counts the stage: that state, whole, by stage; and weights of
// older versions in fp32, where they are of 16 bits.
struct HostState {
  std::map<int, std::vector<std::vector<float>>> sharded;
  std::deque<std::vector<float>> widened;
};

// Called by every worker: each holder sends its shard to the one that counts the stage.
HostState gather_state(Worker& worker);

// Of every stage that the worker counts: each parameter (the weight, or what it is the rounding
// of), its moments, and older versions of the weight. `host` holds what is not on the worker's
// device as it is written, and outlives the tensors.
std::vector<checkpoint::NamedTensor> counted_tensors(Worker& worker, HostState& host);

// Of the weights `back` updates ago.
std::string version_name(Index back, const std::string& name);

}  // namespace chimera::train
