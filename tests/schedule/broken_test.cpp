// Damage to computations, messages and buffers of one step (rules of verify_order.cpp,
// verify_rules.cpp and the ends of verify.cpp).
#include "broken.h"

namespace chimera::schedule::broken {
namespace {

Schedule serial(int N) {
  return build_schedule({.schedule = "gpipe", .depth = 1, .micro_batches = N});
}

TEST_CASE("broken: swapped receives on one link") {
  refused(good(),
          [](Schedule& s) {
            swap(s, 1, "RecvStart p0 s1 m0 activation", "RecvStart p0 s1 m1 activation");
          },
          {"worker 1, body[", "RecvStart p0 s1 m1 activation", "is sent by worker 0, body[2]",
           "the order on this link differs"});
}

// Right for a transport that tells the pipes apart, not for one that matches by order alone.
TEST_CASE("broken: swapped receives of two pipes on one link") {
  refused(good(),
          [](Schedule& s) {
            swap(s, 1, "RecvStart p0 s1 m1 activation", "RecvStart p1 s2 m2 gradient");
          },
          {"worker 1, body[", "RecvStart p1 s2 m2 gradient", "is sent by worker 0, body[",
           "the order on this link differs"});
}

TEST_CASE("broken: a message with one end") {
  refused(good(), [](Schedule& s) { erase(s, 1, "RecvStart p0 s1 m1 activation"); },
          {"worker 0, body[", "SendStart p0 s0 m1 activation", "worker 1 never receives it"});
  refused(good(), [](Schedule& s) { erase(s, 0, "SendStart p0 s0 m1 activation"); },
          {"worker 1, body[", "RecvStart p0 s1 m1 activation", "worker 0 never sends it"});
}

TEST_CASE("broken: swapped receives from two links wait in a circle") {
  refused(good(),
          [](Schedule& s) {
            swap(s, 1, "RecvStart p0 s1 m1 activation", "RecvStart p1 s2 m3 activation");
          },
          {"deadlock under blocking rendezvous: worker ", " waits for worker ", ": a circle"});
}

TEST_CASE("broken: receive just before use, send just after, waits in a circle") {
  // Neighbours of the two directions send to each other in the same tick, each before it receives.
  refused(build_schedule({.depth = 4, .micro_batches = 4}),
          [](Schedule& s) {
            for (Program& p : s.programs) {
              Body late, held;
              for (const Instr& in : p.body) {
                if (in.op == Op::RecvStart) {
                  held.push_back(in);
                  continue;
                }
                if (in.op == Op::RecvWait)
                  late.push_back(*std::ranges::find_if(held, [&](const Instr& h) {
                    return h.pipe == in.pipe && h.stage == in.stage && h.micro == in.micro &&
                           h.message == in.message;
                  }));
                late.push_back(in);
              }
              p.body = late;
            }
          },
          {"deadlock under blocking rendezvous", ": a circle"});
}

TEST_CASE("broken: everybody waits for a worker that is through") {
  refused(good(), [](Schedule& s) { body(s, 3).resize(index_of(s, 3, "StepSyncStart")); },
          {"deadlock under blocking rendezvous", "StepSyncStart' waits for worker 3, end of body",
           "which will not come"});
}

TEST_CASE("broken: a second backward or forward") {
  refused(good(), [](Schedule& s) { twice(s, 1, "B p0 s1 m0"); },
          {"worker 1, body[", "B p0 s1 m0", "a second Backward of micro-batch 0"});
  refused(good(), [](Schedule& s) { twice(s, 1, "F p0 s1 m0"); },
          {"worker 1, body[", "F p0 s1 m0", "a second Forward of micro-batch 0"});
}

TEST_CASE("broken: a missing forward, backward or load") {
  refused(good(), [](Schedule& s) { erase(s, 1, "F p0 s1 m1"); },
          {"worker 1, body[", "SendStart p0 s1 m1 activation", "micro-batch 1 has not had its",
           "Forward: there is nothing to send"});
  refused(good(), [](Schedule& s) { erase(s, 3, "F p0 s3 m1"); },
          {"worker 3, body[", "B p0 s3 m1", "micro-batch 1 has not had its Forward"});
  refused(good(), [](Schedule& s) { erase(s, 2, "B p0 s2 m0"); },
          {"worker 2, body[", "SendStart p0 s2 m0 gradient", "has not had its Backward"});
  refused(good(), [](Schedule& s) { erase(s, 0, "B p0 s0 m1"); },
          {"worker 0, body[", "Release p0 s0 m1", "micro-batch 1 still needs its Backward"});
  refused(serial(2), [](Schedule& s) { erase(s, 0, "LoadMicro p0 s0 m0"); },
          {"worker 0, body[0] 't00 F p0 s0 m0'", "these micro-batches have no buffer"});
  refused(good(), [](Schedule& s) { erase(s, 3, "LoadMicro p0 s3 m0"); },
          {"worker 3, body[", "F p0 s3 m0", "the targets of micro-batch 0 have not been loaded"});
  refused(serial(2),
          [](Schedule& s) {
            for (const char* text : {"B p0 s0 m1", "Release p0 s0 m1", "Update s0"})
              erase(s, 0, text);
          },
          {"worker 0, end of body: stage 0 has no Backward of micro-batch 1 (pipe 0)"});
  refused(build_evaluation(good(), 4),
          [](Schedule& s) {
            for (const char* text : {"F p0 s3 m2", "Release p0 s3 m2"}) erase(s, 3, text);
          },
          {"worker 3, end of body: stage 3 has no Forward of micro-batch 2 (pipe 0)"});
  refused(build_evaluation(serial(2), 2),
          [](Schedule& s) {
            for (const char* text : {"F", "LoadMicro", "Release"})
              erase(s, 0, std::string(text) + " p0 s0 m1");
          },
          {"micro-batch 1 is never run"});
}

TEST_CASE("broken: half of a block is loaded") {
  const Schedule doubled = build_schedule({.depth = 4, .micro_batches = 16, .scaling = "doubling"});
  refused(doubled, [](Schedule& s) { erase(s, 0, "LoadMicro p0 s0 m1"); },
          {"worker 0, body[", "F p0 s0 m1", "micro-batch 1 has not been loaded"});
  refused(
      serial(3), [](Schedule& s) { find(s, 0, "LoadMicro p0 s0 m1").count = 2; },
      {"worker 0, body[", "LoadMicro p0 s0 m1 x2", "crosses the border between two buffers of 2"});
}

TEST_CASE("broken: a load twice, or where nobody reads data") {
  refused(good(), [](Schedule& s) { twice(s, 0, "LoadMicro p0 s0 m1"); },
          {"worker 0, body[", "LoadMicro p0 s0 m1", "micro-batch 1 is loaded twice"});
  refused(good(), [](Schedule& s) { insert_before(s, 1, "LoadMicro p0 s1 m0", "RecvWait"); },
          {"worker 1, body[", "LoadMicro p0 s1 m0", "only the first and the last stage read data"});
}

TEST_CASE("broken: computing before the input is there") {
  refused(good(), [](Schedule& s) { erase(s, 1, "RecvWait p0 s1 m0 activation"); },
          {"worker 1, body[", "F p0 s1 m0", "its input has not arrived"});
  refused(good(), [](Schedule& s) { erase(s, 1, "RecvWait p0 s1 m0 gradient"); },
          {"worker 1, body[", "B p0 s1 m0", "its gradient has not arrived"});
}

TEST_CASE("broken: a message is sent twice, or waited for twice") {
  refused(good(),
          [](Schedule& s) {
            twice(s, 0, "SendStart p0 s0 m0 activation");
            twice(s, 1, "RecvStart p0 s1 m0 activation");
          },
          {"worker 0, body[", "SendStart p0 s0 m0 activation", "it is sent a second time"});
  for (const char* text : {"SendWait p0 s1 m0 activation", "RecvWait p0 s1 m0 activation"})
    refused(good(), [&](Schedule& s) { twice(s, 1, text); },
            {"worker 1, body[", text, "nothing like it has been started"});
}

TEST_CASE("broken: something is under way at the end") {
  refused(build_evaluation(good(), 4),
          [](Schedule& s) {
            erase(s, 0, "SendWait p0 s0 m2 activation");
            erase(s, 0, "Release p0 s0 m2");
          },
          {"worker 0, end of body: 't", "SendStart p0 s0 m2 activation w1' has no wait",
           "something is left live"});
}

TEST_CASE("broken: a pool is too small") {
  refused(good(), [](Schedule& s) { s.activation_buffers[1] = 3; },
          {"worker 1, body[", "F p1 s2 m3",
           "it needs activation buffer 4, beyond the worker's pool of 3"});
  refused(good(), [](Schedule& s) { s.boundary_buffers[0] = 3; },
          {"worker 0, body[", "it needs boundary buffer 4, beyond the worker's pool of 3"});
}

TEST_CASE("broken: a gradient over an activation that is still being sent") {
  const Schedule s = build_schedule({.schedule = "1f1b", .depth = 3, .micro_batches = 6});
  refused(s,
          [](Schedule& b) {
            move_before(b, 1, "RecvStart p0 s1 m1 gradient", "SendWait p0 s1 m1 activation");
          },
          {"worker 1, body[", "RecvStart p0 s1 m1 gradient",
           "the activation of the same micro-batch is still being sent (SendWait missing)"});
}

TEST_CASE("broken: a buffer is never released, released twice, in part, or while in use") {
  refused(good(), [](Schedule& s) { erase(s, 0, "Release p0 s0 m1"); },
          {"worker 0, end of body: the buffer of stage 0, micro-batch 1, is never released"});
  refused(good(), [](Schedule& s) { twice(s, 0, "Release p0 s0 m1"); },
          {"worker 0, body[", "Release p0 s0 m1", "these micro-batches have no buffer"});
  refused(good(), [](Schedule& s) { move_before(s, 0, "Release p0 s0 m0", "B p0 s0 m0"); },
          {"worker 0, body[", "Release p0 s0 m0", "micro-batch 0 still needs its Backward"});
  refused(good(),
          [](Schedule& s) { move_before(s, 0, "Release p1 s3 m2", "SendStart p1 s3 m2 gradient"); },
          {"worker 0, body[", "Release p1 s3 m2", "micro-batch 2 has not been sent"});
  refused(good(),
          [](Schedule& s) { move_before(s, 0, "Release p1 s3 m2", "SendWait p1 s3 m2 gradient"); },
          {"worker 0, body[", "Release p1 s3 m2", "(SendWait missing)"});
  refused(build_schedule({.depth = 4, .micro_batches = 16, .scaling = "doubling"}),
          [](Schedule& s) { find(s, 0, "Release p0 s0 m0 x2").count = 1; },
          {"worker 0, body[", "Release p0 s0 m0",
           "a buffer is released as a whole: its micro-batches are 2 from 0 on"});
  const Schedule evaluation = build_evaluation(good(), 4);
  refused(evaluation, [](Schedule& s) { move_before(s, 0, "Release p0 s0 m0", "F p0 s0 m0"); },
          {"Release p0 s0 m0", "micro-batch 0 still needs its Forward"});
  refused(
      evaluation,
      [](Schedule& s) { move_before(s, 0, "Release p0 s0 m0", "SendStart p0 s0 m0 activation"); },
      {"Release p0 s0 m0", "micro-batch 0 has not been sent"});
}

TEST_CASE("broken: backwards of a (pipe, stage) out of order") {
  // All forwards are through before gpipe's first backward, so only the order of addition is wrong.
  refused(serial(3),
          [](Schedule& s) {
            swap(s, 0, "B p0 s0 m0", "B p0 s0 m1");
            swap(s, 0, "Release p0 s0 m0", "Release p0 s0 m1");
          },
          {"worker 0, body[8] ", "B p0 s0 m0",
           "must be added in ascending micro-batch order, and micro-batch 1 was before"});
}

TEST_CASE("broken: a micro-batch on two pipes, or on none") {
  refused(build_schedule({.depth = 2, .micro_batches = 2}),
          [](Schedule& s) {
            for (Program& p : s.programs)
              for (Instr& in : p.body)
                if (in.micro == 1) in.micro = 0;
          },
          {"micro-batch 0 runs on pipe"});
  refused(good(), [](Schedule& s) { s.micro_batches = 5; }, {"micro-batch 4 is never run"});
}

TEST_CASE("broken: a backward on the other pipe of the same worker") {
  ComputePlan plan = generate({.schedule = "gpipe", .depth = 1, .micro_batches = 2});
  plan.placement = {{0}, {0}};
  plan.pipeline_pairs = 1;
  for (Instr& in : plan.workers[0]) in.pipe = in.micro;
  refused(lower(plan, {}), [](Schedule& s) { find(s, 0, "B p1 s0 m1").pipe = 0; },
          {"worker 0, body[", "B p0 s0 m1", "micro-batch 1 runs on pipe 1"});
}

TEST_CASE("broken: two computations of a worker in one tick") {
  refused(good(), [](Schedule& s) { find(s, 0, "F p0 s0 m1").tick = 0; },
          {"worker 0, body[4] 't00 F p0 s0 m1'", "a worker computes one thing per tick"});
}

TEST_CASE("broken: training in an evaluation") {
  refused(good(), [](Schedule& s) { s.forward_only = true; },
          {"worker 3, body[", "B p0 s3 m0", "evaluation has forwards and activations only"});
}

Schedule split() {
  ComputePlan plan = generate({.schedule = "1f1b", .depth = 2, .micro_batches = 2});
  for (std::vector<Instr>& list : plan.workers) {
    std::vector<Instr> halves;
    for (Instr in : list) {
      in.tick *= 2;
      if (in.op == Op::Backward) in.op = Op::BackwardInput;
      halves.push_back(in);
      if (in.op != Op::BackwardInput) continue;
      in.op = Op::BackwardWeight;
      ++in.tick;
      halves.push_back(in);
    }
    list = halves;
  }
  return lower(plan, {});
}

TEST_CASE("broken: halves of a backward in the wrong order, missing or double") {
  refused(split(), [](Schedule& s) { swap(s, 1, "Bi p0 s1 m0", "Bw p0 s1 m0"); },
          {"worker 1, body[", "Bw p0 s1 m0", "the BackwardInput of micro-batch 0 comes first"});
  refused(split(), [](Schedule& s) { twice(s, 1, "Bi p0 s1 m0"); },
          {"worker 1, body[", "Bi p0 s1 m0", "a second Backward of micro-batch 0"});
  refused(split(), [](Schedule& s) { twice(s, 1, "Bw p0 s1 m0"); },
          {"worker 1, body[", "Bw p0 s1 m0", "a second Backward of micro-batch 0"});
  refused(split(), [](Schedule& s) { erase(s, 1, "Bw p0 s1 m0"), s.activation_buffers[1] = 2; },
          {"worker 1, body[", "Release p0 s1 m0", "micro-batch 0 still needs its Backward"});
}

TEST_CASE("broken: a recomputation too early, too late, twice or missing") {
  const Schedule s =
      build_schedule({.schedule = "1f1b", .depth = 2, .micro_batches = 2, .recompute = true});
  refused(s, [](Schedule& b) { move_before(b, 1, "R p0 s1 m0", "F p0 s1 m0"); },
          {"worker 1, body[", "R p0 s1 m0", "micro-batch 0 has not had its Forward"});
  refused(s, [](Schedule& b) { twice(b, 1, "R p0 s1 m0"); },
          {"worker 1, body[", "R p0 s1 m0", "a second Recompute of micro-batch 0"});
  refused(s, [](Schedule& b) { erase(b, 1, "R p0 s1 m0"); },
          {"worker 1, body[", "B p0 s1 m0", "micro-batch 0 has had no Recompute"});
  refused(s, [](Schedule& b) { swap(b, 1, "R p0 s1 m0", "B p0 s1 m0"); },
          {"worker 1, body[", "B p0 s1 m0", "micro-batch 0 has had no Recompute"});
  // Every activation made again before its turn: the pool of one is too small.
  refused(s, [](Schedule& b) { move_before(b, 0, "R p0 s0 m1", "R p0 s0 m0"); },
          {"worker 0, body[", "R p0 s0 m0",
           "it needs activation buffer 2, beyond the worker's pool of 1"});
}

TEST_CASE("every single instruction is needed, once") {
  for (const Request& request :
       {Request{.depth = 4, .micro_batches = 5, .tied = true},
        Request{.schedule = "1f1b", .depth = 3, .micro_batches = 4, .width = 2, .tied = true},
        Request{.schedule = "gpipe", .depth = 1, .micro_batches = 2, .tied = true},
        Request{.schedule = "gems", .depth = 3, .micro_batches = 3, .recompute = true},
        Request{.depth = 4, .micro_batches = 4, .gradient_sync = "eager", .zero_stage = 1},
        Request{.depth = 4, .micro_batches = 16, .scaling = "doubling"},
        Request{.schedule = "pipedream", .depth = 3, .micro_batches = 1, .width = 2},
        Request{.schedule = "pipedream-2bw", .depth = 2, .micro_batches = 2, .tied = true}}) {
    const Schedule whole = build_schedule(request);
    for (int w = 0; w < request.depth; ++w)
      for (std::size_t i = 0; i < whole.programs[static_cast<std::size_t>(w)].body.size(); ++i) {
        Schedule s = whole;
        CAPTURE(request.schedule, w, i, to_string(body(s, w)[i]));
        const auto place = static_cast<std::ptrdiff_t>(i);
        body(s, w).erase(body(s, w).begin() + place);
        CHECK_THROWS_AS(verify(s), Error);
        s = whole;
        body(s, w).insert(body(s, w).begin() + place, Instr(body(s, w)[i]));
        CHECK_THROWS_AS(verify(s), Error);
      }
  }
}

}  // namespace
}  // namespace chimera::schedule::broken
