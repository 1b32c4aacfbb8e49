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
  LoadMicro,  // tokens and targets of `count` micro-batches from `micro` on
  Forward,    // stage forward of `count` micro-batches
  Recompute,  // forward again from the stage's input: fills an activation buffer from the boundary
              // buffer
  Backward,   // input and weight gradients of `count` micro-batches
  BackwardInput,   // the input gradient alone
  BackwardWeight,  // the weight gradient alone, after BackwardInput of the same micro-batch
  SendStart,       // begin sending `message` to `peer`
  SendWait,        // its buffer may be reused after this
  RecvStart,       // begin receiving `message` from `peer`
  RecvWait,        // it has arrived
  AllReduceStart,  // sum the gradients of `stage` over `group`
  AllReduceWait,
  ReduceScatterStart,  // the same, each holder keeping its shard (ZeRO 1)
  ReduceScatterWait,
  GradNorm,        // sums of squares of the reduced gradients of `stage`, along its shards' holders
  AllGatherStart,  // updated weights of `stage` from the holders of its shards
  AllGatherWait,
  StepSyncStart,  // losses, norms, stop requests: this worker's part
  StepSyncWait,   // everybody's: the step's one global decision
  Update,         // makes version step + 1 of `stage` from version step
  Release,        // `stage` holds nothing more of these micro-batches
};

// What travels between neighbours: activations of a Forward or the input gradient of a Backward.
enum class Message { None, Activation, Gradient };

// One instruction. -1 in a field means that the field does not apply. An instruction names what it
// works on, not where that lies: a worker keeps each (stage, block of micro-batches, step) in a
// buffer from its first LoadMicro or RecvStart to Release.
struct Instr {
  int tick = 0;  // position in the common virtual clock; orders and groups messages
  Op op = Op::Forward;
  int pipe = -1;   // 0 … 2f-1
  int stage = -1;  // 0 … vD-1; vD is the pseudo-stage of a tied embedding matrix
  int micro = -1;  // first micro-batch, 0 … N-1 within the pipeline group and step
  int count = 1;   // micro-batches spanned; their rows are contiguous in every tensor of the buffer
  int step = 0;    // <= 0: iteration k of the body executes it for step k + step
  int version = 0;  // updates by which the weights used lag behind the step: 0 synchronous
  int peer = -1;    // worker (0 … D-1 of this pipeline group) at the other end of a message
  Message message = Message::None;
  int group = -1;  // index into Schedule::groups
  auto operator<=>(const Instr&) const = default;
};

std::string to_string(Op op);
std::string to_string(Message message);
// The name in logs, traces and files: tick, operation (F, B, Bi, Bw, R for the computing ones),
// then every field that is not at its default: "t07 B p1 s2 m5", "t07 SendStart p1 s2 m5 gradient
// w1" (to worker 1), "t03 F p0 s1 m0 step-1 v1".
std::string to_string(const Instr& instr);
// The inverse; throws Error naming the word it does not know.
Instr parse_instr(const std::string& text);

// Forward, Recompute, Backward, BackwardInput, BackwardWeight: what occupies a worker.
bool is_compute(Op op);
// Backward or BackwardWeight, in an evaluation Forward: a micro-batch's last computation at a
// stage.
bool finishes(Op op, bool forward_only);

// When memory is in use. A block of micro-batches at one stage of one step has a boundary buffer
// from its first acquires_boundary to its releases_boundary, and an activation buffer from the
// first micro-batch that acquires_activations to the last that releases_activations. `kept`:
// Schedule::keeps_activations().
bool acquires_boundary(Op op);                // LoadMicro, RecvStart
bool releases_boundary(Op op);                // Release
bool acquires_activations(Op op);             // Forward, Recompute
bool releases_activations(Op op, bool kept);  // Backward, BackwardWeight; unless kept also Forward

// What one worker executes: one step in steady state. A run of steps [first, last) executes the
// body for iterations first … last - 1 + lag, each time without the instructions whose step is
// outside [first, last): so the pipeline fills and drains without programs of their own
// (kernel-only software pipelining: Rau, 1992). `lag` is the largest -step; 0 where a step ends
// before the next begins.
struct Program {
  std::vector<Instr> body;
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
  // Memory pools. A boundary buffer holds what travels (stage input, output, gradient, tokens,
  // targets, losses) of one block from its first message to Release; an activation buffer holds
  // what backward needs, from Forward (with recomputation: Recompute) to Backward or
  // BackwardWeight.
  std::vector<int> activation_buffers, boundary_buffers;  // per worker
  std::vector<int> versions;      // weight versions kept, per group (stage, tied matrix)
  std::vector<int> accumulators;  // gradient accumulators per contribution, per group
  int period = 0;  // ticks from step to step when steps overlap; 0: a barrier ends every step
  int pipes() const { return static_cast<int>(placement.size()); }
  int stages() const { return virtual_stages * depth; }
  int lag() const;   // of the programs
  int span() const;  // micro-batches of one buffer: the largest count
  bool has(Op op) const;
  // Whether backward finds what Forward has stored: not in an evaluation, not where Recompute
  // stores it again.
  bool keeps_activations() const { return !forward_only && !has(Op::Recompute); }
  // The contributions to this group's sum over all replicas; a group with one needs no reduction.
  int contributions(const Group& group) const {
    return width * static_cast<int>(group.holders.size());
  }
  auto operator<=>(const Schedule&) const = default;
};

}  // namespace chimera::schedule
