#pragma once
// A schedule is data. This file is the whole vocabulary: what one worker can be told to do.
// Symbols are the paper's (Li and Hoefler, SC'21): D stages, N micro-batches, f pipeline pairs; v
// virtual stages per worker make v * D stages. Pipe p < f runs down, pipe f <= p < 2f runs up.
#include <compare>
#include <string>
#include <vector>

#include "chimera/base/types.h"

namespace chimera::schedule {

enum class Op {
  LoadMicro,       // tokens and targets of `micro` into `slot`
  Forward,         // stage forward of `count` micro-batches from `micro` on
  Recompute,       // forward again from the stage's input, filling `slot` from `input_slot`
  Backward,        // input and weight gradients of `count` micro-batches
  BackwardInput,   // the input gradient alone
  BackwardWeight,  // the weight gradient alone, after BackwardInput of the same micro-batch
  SendStart,       // begin sending `message` of `slot` to `peer`
  SendWait,        // its buffer may be reused after this
  RecvStart,       // begin receiving `message` into `slot` from `peer`
  RecvWait,        // it has arrived
  AllReduceStart,  // sum the gradients of `stage` over `group`
  AllReduceWait,
  ReduceScatterStart,  // the same, each holder keeping its shard (ZeRO 1)
  ReduceScatterWait,
  AllGatherStart,  // updated weights of `stage` from the holders of its shards
  AllGatherWait,
  Verdict,      // the step's one global decision: norm, finite, clip, stop and save requests
  Update,       // optimizer step of `stage`
  PushVersion,  // the weights of `stage` become the newest stored version
  Snapshot,     // copy `stage` for a checkpoint
  FreeSlot,     // `slot` holds nothing that is needed
};

// What travels between neighbours: activations of a Forward or the input gradient of a Backward.
enum class Message { None, Activation, Gradient };

// One instruction. -1 in a field means that the field does not apply.
// `slot`, `input_slot` and `version` are relative: physical = (value + step) mod the pool's count,
// where `step` counts body iterations; with `*_stride` 0 in the program (synchronous schemes) they
// are absolute.
struct Instr {
  int tick = 0;  // position in the common virtual clock; orders and groups messages
  Op op = Op::Forward;
  int pipe = -1;     // 0 … 2f-1
  int stage = -1;    // 0 … vD-1; vD is the pseudo-stage of a tied embedding matrix
  int micro = -1;    // first micro-batch, 0 … N-1 within the pipeline group and step
  int count = 1;     // micro-batches spanned; their rows are contiguous in every tensor of the slot
  int step = 0;      // offset of the step that the micro-batch belongs to (overlapping steps)
  int version = -1;  // weight version used (PipeDream, 2BW); -1: the only one
  int slot = -1;     // activation slot of this worker
  int input_slot = -1;  // slot of the small pool of stage inputs that recompute needs
  int peer = -1;        // worker (0 … D-1 of this pipeline group) at the other end of a message
  Message message = Message::None;
  int group = -1;  // index into Schedule::groups
  int stream = 0;  // 0 compute, 1 messages down, 2 messages up, 3 reductions (devices with streams)
  std::vector<int> waits;  // indices in this program whose events a stream must wait for
  auto operator<=>(const Instr&) const = default;
};

std::string to_string(Op op);
std::string to_string(Message message);
// The name in logs, traces and files: tick, operation (F, B, Bi, Bw, R for the computing ones),
// then every field that is not at its default: "t07 B p1 s2 m5 slot0", "t07 SendStart p1 s2 m5
// gradient slot0 w1" (to worker 1).
std::string to_string(const Instr& instr);
// The inverse; throws Error naming the word it does not know.
Instr parse_instr(const std::string& text);

// Forward, Recompute, Backward, BackwardInput, BackwardWeight: what occupies a worker.
bool is_compute(Op op);

// What one worker executes: `body` is one step in steady state; `prologue` and `epilogue` are empty
// for schemes that finish all their work within a step.
struct Program {
  std::vector<Instr> prologue, body, epilogue;
  auto operator<=>(const Program&) const = default;
};

// Which contributions are summed for one stage, in the order of addition (within one replica; the
// runtime repeats it for each of the W replicas: order is replica, then the order here).
struct Holder {
  int worker = 0;
  int pipe = 0;
  int use = 0;  // tied matrix: 0 embedding, 1 head; otherwise 0
  auto operator<=>(const Holder&) const = default;
};
struct Group {
  int stage = 0;
  std::vector<Holder> holders;  // ascending (pipe, use)
  auto operator<=>(const Group&) const = default;
};

// A whole schedule for one pipeline group of `workers` workers.
struct Schedule {
  std::string name;               // "chimera", "1f1b", "gpipe", …
  int depth = 1;                  // D
  int micro_batches = 1;          // N
  int pipeline_pairs = 0;         // f; 0: one pipe, down
  int virtual_stages = 1;         // v
  bool tied = false;              // a tied embedding matrix is the pseudo-stage vD
  int width = 1;                  // W replicas of the group; more than 1: every stage is reduced
  bool forward_only = false;      // evaluation: no backward, no reductions, no updates
  std::vector<Program> programs;  // one per worker, D of them
  std::vector<std::vector<int>> placement;  // placement[pipe][stage] = worker
  std::vector<Group> groups;                // one per stage (and the tied matrix), ascending stage
  std::vector<int> slots;                   // activation slots of each worker's pool
  std::vector<int> input_slots;             // small pool of recompute, per worker
  int versions = 1;                         // weight versions stored
  int slot_stride = 0;                      // 1: slots rotate with the step
  int pipes() const { return static_cast<int>(placement.size()); }
  int stages() const { return virtual_stages * depth; }
  // The contributions to this group's sum over all replicas; a group with one needs no reduction.
  int contributions(const Group& group) const {
    return width * static_cast<int>(group.holders.size());
  }
  auto operator<=>(const Schedule&) const = default;
};

}  // namespace chimera::schedule
