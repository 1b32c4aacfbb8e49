// Weight versions, accumulators, reductions, step synchronisations and updates: who may use what in
// which step.
#include <algorithm>

#include "verify_state.h"

namespace chimera::schedule {

// The weights of a step with lag v are those after step - v updates; before the first there are the
// initial ones. A buffer is overwritten by the update `versions` later.
void Machine::check_version(int w, const Instr& in) const {
  const auto check = [&](int stage) {
    const GroupState& group = workers_[at(w)].groups[at(stage)];
    const int number = step(w) - in.version, kept = schedule_.versions[at(stage)];
    if (number > group.updates)
      fail(w, "it needs the weights of stage ", stage, " after ", number, " updates; ",
           group.updates, " have been done");
    if (number <= group.updates - kept)
      fail(w, "the weights of stage ", stage, " that lag by ", in.version, " are gone: ", kept,
           " versions are kept, and ", group.updates, " updates have been done");
  };
  check(in.stage);
  if (schedule_.tied && (in.stage == 0 || in.stage == S_ - 1)) check(S_);
}

// Gradients of a step may be added when the accumulator's earlier step has been updated. (None come
// after their reduction has begun: check_complete.)
void Machine::check_accumulators(int w, int stage) const {
  const auto check = [&](int id) {
    const GroupState& group = workers_[at(w)].groups[at(id)];
    if (group.updates <= step(w) - schedule_.accumulators[at(id)])
      fail(w, "it adds to gradients of stage ", id, " that still belong to step ",
           step(w) - schedule_.accumulators[at(id)], ": its Update comes first");
  };
  check(stage);
  if (schedule_.tied && (stage == 0 || stage == S_ - 1)) check(S_);
}

// All gradients that this worker brings to the group are there.
void Machine::check_complete(int w, int stage) const {
  for (const Holder& h : schedule_.groups[at(stage)].holders) {
    if (h.worker != w) continue;
    const int source = stage < S_ ? stage : (h.use == 0 ? 0 : S_ - 1);
    for (int m = 0; m < schedule_.micro_batches; ++m)
      if (pipe_of_[at(m)] == h.pipe && !micro(step(w), source, m).backward)
        fail(w, "the gradients of stage ", stage, " are not complete: stage ", source,
             " has had no Backward of micro-batch ", m);
  }
}

void Machine::reduce_start(int w, const Instr& in) {
  GroupState& state = workers_[at(w)].groups[at(in.stage)];
  if (schedule_.contributions(schedule_.groups[at(in.group)]) < 2)
    fail(w, "stage ", in.stage, " has one contribution: there is nothing to reduce");
  if (state.started != step(w)) fail(w, "stage ", in.stage, " is reduced a second time");
  if (state.reduced != state.started)
    fail(w, "the reduction of stage ", in.stage, " for the step before has had no wait");
  check_complete(w, in.stage);
  state.scatters = in.op == Op::ReduceScatterStart;
  ++state.started;
  if (step(w) == 0) ++report_.workers[at(w)].reductions;
}

void Machine::reduce_wait(int w, const Instr& in) {
  GroupState& state = workers_[at(w)].groups[at(in.stage)];
  if (state.reduced != step(w) || state.started <= step(w) ||
      state.scatters != (in.op == Op::ReduceScatterWait))
    fail(w, "no reduction of stage ", in.stage, " is under way");
  ++state.reduced;
}

// Each holder of a shard adds to what the one before it has handed on, so all are there at once.
void Machine::grad_norm(int w, const Instr& in) {
  GroupState& state = workers_[at(w)].groups[at(in.stage)];
  if (!state.scatters)
    fail(w, "stage ", in.stage, " is not sharded: a holder has its norm without the others");
  if (state.reduced <= step(w))
    fail(w, "the norm of stage ", in.stage, " is taken before its gradients are reduced");
  if (state.normed != step(w)) fail(w, "the norm of stage ", in.stage, " is taken a second time");
  ++state.normed;
}

void Machine::gather_start(int w, const Instr& in) {
  GroupState& state = workers_[at(w)].groups[at(in.stage)];
  if (!state.scatters) fail(w, "stage ", in.stage, " is not sharded: there is nothing to gather");
  if (state.updates <= step(w)) fail(w, "the shard of stage ", in.stage, " is not updated yet");
  if (state.gather_started != step(w)) fail(w, "stage ", in.stage, " is gathered a second time");
  ++state.gather_started;
}

void Machine::gather_wait(int w, const Instr& in) {
  GroupState& state = workers_[at(w)].groups[at(in.stage)];
  if (state.gathered != step(w) || state.gather_started <= step(w))
    fail(w, "no gathering of stage ", in.stage, " is under way");
  ++state.gathered;
}

// With a barrier the step synchronisation decides about the updates, so the sums are complete
// before it; without one it reports what has been done.
void Machine::step_sync_start(int w) {
  WorkerState& worker = workers_[at(w)];
  const int now = step(w);
  if (worker.step_syncs_started != now) fail(w, "a second step synchronisation");
  for (const Group& group : schedule_.groups) {
    const GroupState& state = worker.groups[at(group.stage)];
    if (!state.held) continue;
    if (barrier() && schedule_.contributions(group) > 1 && state.reduced <= now)
      fail(w, "stage ", group.stage, " has ", schedule_.contributions(group),
           " contributions and is not reduced: its reduction is missing");
    if (state.scatters && state.normed <= now)
      fail(w, "stage ", group.stage,
           " is sharded and its norm is not summed up: its GradNorm is "
           "missing");
    if (!barrier() && state.updates <= now)
      fail(w, "stage ", group.stage, " has not been updated yet");
  }
  ++worker.step_syncs_started;
}

void Machine::step_sync_wait(int w) {
  WorkerState& worker = workers_[at(w)];
  if (worker.step_syncs != step(w) || worker.step_syncs_started <= step(w))
    fail(w, "no step synchronisation is under way");
  ++worker.step_syncs;
}

void Machine::update(int w, const Instr& in) {
  WorkerState& worker = workers_[at(w)];
  GroupState& state = worker.groups[at(in.stage)];
  if (barrier() && worker.step_syncs <= step(w))
    fail(w, "an Update before the step synchronisation");
  if (state.updates > step(w)) fail(w, "stage ", in.stage, " is updated a second time");
  check_complete(w, in.stage);
  if (schedule_.contributions(schedule_.groups[at(in.stage)]) > 1 && state.reduced <= step(w))
    fail(w, "stage ", in.stage, " is updated before its gradients are reduced");
  ++state.updates;
}

}  // namespace chimera::schedule
