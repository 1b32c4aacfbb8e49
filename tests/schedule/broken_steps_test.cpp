// Damage to what holds steps together: weight versions, accumulators, reductions, gathering, the
// step synchronisation and updates (rules of verify_groups.cpp and the order in groups).
#include "broken.h"

namespace chimera::schedule::broken {
namespace {

Schedule pipedream(int D, int width = 1) {
  return build_schedule({.schedule = "pipedream", .depth = D, .micro_batches = 1, .width = width});
}
Schedule two_versions(int D, int N, int width = 1, bool tied = false) {
  return build_schedule(
      {.schedule = "pipedream-2bw", .depth = D, .micro_batches = N, .width = width, .tied = tied});
}
Schedule sharded() { return build_schedule({.depth = 4, .micro_batches = 4, .zero_stage = 1}); }

void set_version(Schedule& s, int worker, int version) {
  for (Instr& in : body(s, worker))
    if (is_compute(in.op)) in.version = version;
}

TEST_CASE("broken: weights newer than the schedule has made") {
  // PipeDream's stages on the newest weights: only the last one may, since only there every
  // micro-batch has been updated by before the next comes.
  refused(pipedream(4),
          [](Schedule& s) {
            for (int w = 0; w < 4; ++w) set_version(s, w, 0);
          },
          {"worker 0, body[", "(iteration 1)", "F p0 s0 m0",
           "it needs the weights of stage 0 after 1 updates; 0 have been done"});
  for (int w = 0; w < 3; ++w)
    refused(pipedream(4), [&](Schedule& s) { set_version(s, w, 3 - w - 1); },
            {"worker " + std::to_string(w), "F p0 s", "updates; "});
  refused(two_versions(2, 2), [](Schedule& s) { set_version(s, 0, 0); },
          {"worker 0, body[", "it needs the weights of stage 0 after 1 updates; 0 have been done"});
}

TEST_CASE("broken: weights that are gone") {
  // A stage that keeps D-s versions finds the one that lags by D-1-s, and none older.
  for (int w = 0; w < 4; ++w)
    refused(pipedream(4), [&](Schedule& s) { set_version(s, w, 4 - w); },
            {"worker " + std::to_string(w),
             " are gone: " + std::to_string(4 - w) + " versions are kept"});
  refused(pipedream(4), [](Schedule& s) { --s.versions[0]; },
          {"worker 0, body[", "F p0 s0 m0 v3",
           "the weights of stage 0 that lag by 3 are gone: 3 versions are kept"});
  refused(two_versions(2, 2), [](Schedule& s) { s.versions[1] = 1; },
          {"worker 1, body[", "are gone: 1 versions are kept"});
  // The backward on another version than its forward.
  refused(pipedream(2), [](Schedule& s) { find(s, 0, "B p0 s0 m0").version = 2; },
          {"worker 0, body[", "B p0 s0 m0 step-1 v2", "are gone: 2 versions"});
  // The tied matrix has versions of its own.
  refused(two_versions(2, 2, 1, true), [](Schedule& s) { s.versions[2] = 1; },
          {"the weights of stage 2 that lag by 1 are gone: 1 versions are kept"});
}

TEST_CASE("broken: a forward of the next step before its update") {
  refused(pipedream(2), [](Schedule& s) { move_before(s, 1, "Update s1", "SendWait"); },
          {"worker 1, body[", "(iteration 1) it needs the weights of stage 1 after 1 updates; 0"});
  refused(pipedream(1), [](Schedule& s) { swap(s, 0, "F p0 s0 m0", "Update s0"); },
          {"worker 0, body[0]", "these micro-batches have no buffer"});
  refused(pipedream(1), [](Schedule& s) { move_before(s, 0, "Update s0", "B p0 s0 m0"); },
          {"worker 0, body[1] 't00 F p0 s0 m0': (iteration 1) it needs the weights of stage 0 "
           "after 1 updates; 0 have been done"});
}

TEST_CASE("broken: too few accumulators") {
  // Under 2BW the head's gradients of a step begin before the embedding's of the one before end.
  refused(two_versions(2, 2, 1, true), [](Schedule& s) { s.accumulators[2] = 1; },
          {"worker 1, body[", "F p0 s1 m0 v1",
           "it adds to gradients of stage 2 that still belong to step 0: its Update comes first"});
  refused(two_versions(1, 2), [](Schedule& s) { move_before(s, 0, "Update s0", "Release"); },
          {"worker 0, body[", "F p0 s0 m0 v1",
           "it adds to gradients of stage 0 that still belong to step 0: its Update comes first"});
}

TEST_CASE("broken: an update before all gradients") {
  refused(
      two_versions(2, 2),
      [](Schedule& s) {
        Instr& update = find(s, 0, "Update s0");
        ++update.step;
        move_before(s, 0, "Update s0", "RecvWait p0 s0 m0 gradient");
      },
      {"worker 0, body[", "Update s0",
       "the gradients of stage 0 are not complete: stage 0 has had no Backward of micro-batch 0"});
}

TEST_CASE(
    "broken: an update before the step synchronisation, before the reduction, twice, or missing") {
  refused(good(), [](Schedule& s) { move_before(s, 2, "Update s1", "StepSyncWait"); },
          {"worker 2, body[", "Update s1", "an Update before the step synchronisation"});
  refused(good(), [](Schedule& s) { erase(s, 1, "StepSyncWait"); },
          {"worker 1, body[", "Update s1", "an Update before the step synchronisation"});
  refused(two_versions(2, 2, 2), [](Schedule& s) { swap(s, 1, "Update s1", "AllReduceWait s1"); },
          {"worker 1, body[", "Update s1", "stage 1 is updated before its gradients are reduced"});
  refused(good(), [](Schedule& s) { append(s, 2, "Update s2"); },
          {"worker 2, body[", "Update s2", "stage 2 is updated a second time"});
  refused(pipedream(1), [](Schedule& s) { append(s, 0, "Update s0 step-1"); },
          {"worker 0, body[7]", "Update s0 step-1", "stage 0 is updated a second time"});
  refused(good(), [](Schedule& s) { erase(s, 3, "Update s4"); },
          {"worker 3, end of body: stage 4 is never updated"});
  refused(good(), [](Schedule& s) { find(s, 1, "Update s2").stage = 3; },
          {"worker 1, body[", "Update s3", "the worker does not hold stage 3"});
}

TEST_CASE("broken: a missing reduction, or one without a wait") {
  refused(good(),
          [](Schedule& s) {
            for (const int w : {1, 2})
              erase(s, w, "AllReduceWait s2"), erase(s, w, "AllReduceStart s2");
          },
          {"worker 1, body[", "StepSyncStart",
           "stage 2 has 2 contributions and is not reduced: its reduction is missing"});
  refused(good(), [](Schedule& s) { erase(s, 1, "AllReduceWait s2"); },
          {"worker 1, body[", "StepSyncStart", "stage 2 has 2 contributions and is not reduced"});
}

TEST_CASE("broken: one member stays away from a reduction") {
  refused(good(), [](Schedule& s) { erase(s, 2, "AllReduceStart s2"); },
          {"worker 2, body[", "AllReduceStart s1", "worker 1 has at this point",
           "AllReduceStart s2", "must reduce in one order"});
  refused(
      good(), [](Schedule& s) { erase(s, 3, "AllReduceStart s4"); },
      {"worker 0, body[", "AllReduceStart s4", "worker 3 holds the stage, too, and takes no part"});
}

TEST_CASE("broken: unequal order in groups") {
  refused(good(), [](Schedule& s) { swap(s, 2, "AllReduceStart s2", "AllReduceStart s1"); },
          {"worker 2, body[", "AllReduceStart s1", "must reduce in one order"});
  refused(sharded(),
          [](Schedule& s) { find(s, 2, "ReduceScatterStart s2").op = Op::AllReduceStart; },
          {"worker 2, body[", "AllReduceStart s2", "worker 1 has at this point",
           "ReduceScatterStart s2", "must reduce in one order"});
}

TEST_CASE("broken: reductions where there is nothing to reduce, twice, or not to be waited for") {
  refused(build_schedule({.schedule = "1f1b", .depth = 2}),
          [](Schedule& s) { insert_before(s, 0, "AllReduceStart s0 g0", "StepSyncStart"); },
          {"worker 0, body[", "stage 0 has one contribution: there is nothing to reduce"});
  refused(good(),
          [](Schedule& s) {
            for (const int w : {1, 2}) twice(s, w, "AllReduceStart s2");
          },
          {"worker 1, body[", "AllReduceStart s2", "stage 2 is reduced a second time"});
  refused(good(), [](Schedule& s) { twice(s, 1, "AllReduceWait s2"); },
          {"worker 1, body[", "AllReduceWait s2", "no reduction of stage 2 is under way"});
  refused(good(), [](Schedule& s) { swap(s, 1, "AllReduceStart s1", "AllReduceWait s1"); },
          {"worker 1, body[", "AllReduceWait s1", "no reduction of stage 1 is under way"});
  refused(sharded(), [](Schedule& s) { find(s, 1, "ReduceScatterWait s2").op = Op::AllReduceWait; },
          {"worker 1, body[", "AllReduceWait s2", "no reduction of stage 2 is under way"});
}

TEST_CASE("broken: a reduction starts before that of the step before is over") {
  // Waited for, and updated by, an iteration later: with a second accumulator and a third version
  // nothing else is wrong.
  refused(
      two_versions(1, 1, 2),
      [](Schedule& s) {
        s.accumulators[0] = 2;
        for (const char* text : {"AllReduceWait s0", "Update s0", "StepSyncStart", "StepSyncWait"})
          --find(s, 0, text).step;
      },
      {"worker 0, body[6]", "AllReduceStart s0",
       "(iteration 1) the reduction of stage 0 for the step before has had no wait"});
}

TEST_CASE("broken: a reduction before its gradients are there, or gradients after it") {
  refused(
      good(),
      [](Schedule& s) {
        for (const int w : {1, 2}) {
          const std::string last = w == 1 ? "B p1 s2 m3" : "B p0 s2 m1";
          move_before(s, w, "AllReduceStart s2", last);
        }
      },
      {"worker 1, body[", "AllReduceStart s2",
       "the gradients of stage 2 are not complete: stage 2 has had no Backward of micro-batch 3"});
  // The tied matrix is complete with the embedding's gradients, in stage 0's last backward.
  refused(
      good(),
      [](Schedule& s) {
        move_before(s, 0, "AllReduceStart s4", "B p0 s0 m1");
        move_before(s, 3, "AllReduceStart s4", "B p1 s0 m3");
        for (const int w : {0, 3})
          for (const char* other : {"AllReduceStart s0", "AllReduceStart s3"})
            move_before(s, w, "AllReduceStart s4", other);
        move_before(s, 0, "AllReduceStart s4", "B p0 s0 m1");
        move_before(s, 3, "AllReduceStart s4", "B p1 s0 m3");
      },
      {"worker 0, body[", "AllReduceStart s4",
       "the gradients of stage 4 are not complete: stage 0 has had no Backward of micro-batch 1"});
}

TEST_CASE("broken: shards gathered too early, twice, never, or where there are none") {
  refused(sharded(),
          [](Schedule& s) {
            for (const int w : {1, 2}) move_before(s, w, "AllGatherStart s1", "Update s1");
          },
          {"worker 1, body[", "AllGatherStart s1", "the shard of stage 1 is not updated yet"});
  refused(sharded(),
          [](Schedule& s) {
            for (const int w : {1, 2}) twice(s, w, "AllGatherStart s1");
          },
          {"worker 1, body[", "AllGatherStart s1", "stage 1 is gathered a second time"});
  refused(sharded(),
          [](Schedule& s) {
            for (const int w : {1, 2})
              erase(s, w, "AllGatherStart s1"), erase(s, w, "AllGatherWait s1");
          },
          {"worker 1, end of body: the shards of stage 1 are never gathered"});
  refused(sharded(), [](Schedule& s) { erase(s, 1, "AllGatherWait s1"); },
          {"worker 1, end of body: the shards of stage 1 are never gathered"});
  refused(sharded(), [](Schedule& s) { twice(s, 1, "AllGatherWait s1"); },
          {"worker 1, body[", "AllGatherWait s1", "no gathering of stage 1 is under way"});
  refused(good(),
          [](Schedule& s) {
            for (const int w : {1, 2}) append(s, w, "AllGatherStart s1 g1");
          },
          {"worker 1, body[", "AllGatherStart s1",
           "stage 1 is not sharded: there is nothing to gather"});
}

TEST_CASE("broken: norms of shards too early, twice, missing, in unequal order, or of no shards") {
  refused(sharded(),
          [](Schedule& s) {
            for (const int w : {1, 2}) move_before(s, w, "GradNorm s1", "ReduceScatterWait s1");
          },
          {"worker 1, body[", "GradNorm s1",
           "the norm of stage 1 is taken before its gradients are reduced"});
  refused(sharded(),
          [](Schedule& s) {
            for (const int w : {1, 2}) twice(s, w, "GradNorm s1");
          },
          {"worker 1, body[", "GradNorm s1", "the norm of stage 1 is taken a second time"});
  refused(sharded(),
          [](Schedule& s) {
            for (const int w : {1, 2}) erase(s, w, "GradNorm s1");
          },
          {"worker 1, body[", "StepSyncStart",
           "stage 1 is sharded and its norm is not summed up: its GradNorm is missing"});
  refused(sharded(), [](Schedule& s) { erase(s, 2, "GradNorm s1"); },
          {"worker 2, body[", "GradNorm s2", "worker 1 has at this point", "GradNorm s1",
           "must reduce in one order"});
  refused(sharded(), [](Schedule& s) { swap(s, 2, "GradNorm s1", "GradNorm s2"); },
          {"worker 2, body[", "GradNorm s2", "must reduce in one order"});
  refused(good(),
          [](Schedule& s) {
            for (const int w : {1, 2}) insert_before(s, w, "GradNorm s1 g1", "StepSyncStart");
          },
          {"worker 1, body[", "GradNorm s1",
           "stage 1 is not sharded: a holder has its norm without the others"});
  refused(sharded(), [](Schedule& s) { find(s, 1, "GradNorm s1").group = 2; },
          {"worker 1, body[", "GradNorm s1 g2", "its group is not that of the stage, 1"});
}

TEST_CASE("broken: a step synchronisation too early, twice, without an answer, or not the end") {
  refused(pipedream(2),
          [](Schedule& s) {
            for (int w = 0; w < 2; ++w) ++find(s, w, "StepSyncStart").step;
          },
          {"worker 0, body[", "StepSyncStart step-1", "stage 0 has not been updated yet"});
  refused(pipedream(2),
          [](Schedule& s) {
            for (int w = 0; w < 2; ++w) twice(s, w, "StepSyncStart");
          },
          {"worker 0, body[", "StepSyncStart", "a second step synchronisation"});
  refused(good(), [](Schedule& s) { swap(s, 1, "StepSyncStart", "StepSyncWait"); },
          {"worker 1, body[", "StepSyncWait", "no step synchronisation is under way"});
  refused(good(), [](Schedule& s) { twice(s, 1, "StepSyncWait"); },
          {"worker 1, body[", "no step synchronisation is under way"});
  refused(pipedream(2), [](Schedule& s) { erase(s, 1, "StepSyncWait"); },
          {"worker 1, end of body: there is no StepSyncWait"});
  refused(good(), [](Schedule& s) { move_before(s, 0, "StepSyncStart", "AllReduceStart s4"); },
          {"deadlock under blocking rendezvous", "StepSyncStart' waits for worker 3", "a circle"});
  refused(good(),
          [](Schedule& s) {
            for (int w = 0; w < 4; ++w) move_before(s, w, "Release", "StepSyncWait");
          },
          {"only updates may follow the step synchronisation"});
}

}  // namespace
}  // namespace chimera::schedule::broken
