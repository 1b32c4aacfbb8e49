// The verifier refuses deliberately broken schedules, and says where and why.
#include <algorithm>
#include <functional>

#include "chimera/schedule/build.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

using Body = std::vector<Instr>;

Schedule good() { return build_schedule({.depth = 4, .micro_batches = 4, .tied = true}); }
Body& body(Schedule& s, int worker) { return s.programs[static_cast<std::size_t>(worker)].body; }

// The first instruction of the worker that prints like this, less its tick.
std::size_t find(Schedule& s, int worker, const std::string& text) {
  const Body& list = body(s, worker);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string line = to_string(list[i]);
    if (line.substr(line.find(' ') + 1).starts_with(text)) return i;
  }
  FAIL("worker " << worker << " has no '" << text << "'");
  return 0;
}
void erase(Schedule& s, int worker, const std::string& text) {
  Body& list = body(s, worker);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(find(s, worker, text)));
}
void swap(Schedule& s, int worker, const std::string& a, const std::string& b) {
  std::swap(body(s, worker)[find(s, worker, a)], body(s, worker)[find(s, worker, b)]);
}
void move_before(Schedule& s, int worker, const std::string& what, const std::string& before) {
  Body& list = body(s, worker);
  const Instr moved = list[find(s, worker, what)];
  erase(s, worker, what);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(find(s, worker, before)), moved);
}

void refused(const std::function<void(Schedule&)>& breaking, const std::vector<std::string>& pieces,
             Schedule s = good()) {
  REQUIRE_NOTHROW(verify(s));
  breaking(s);
  try {
    verify(s);
    FAIL_CHECK("accepted; expected: " << pieces.front());
  } catch (const Error& error) {
    CAPTURE(error.what());
    for (const std::string& piece : pieces)
      CHECK_THAT(std::string(error.what()), Catch::Contains(piece));
  }
}

TEST_CASE("broken: swapped receives on one link") {
  refused(
      [](Schedule& s) {
        swap(s, 1, "RecvStart p0 s1 m0 activation", "RecvStart p0 s1 m1 activation");
      },
      {"worker 1, body[", "RecvStart p0 s1 m1 activation", "is sent by worker 0, body[2]",
       "the order on this link differs"});
}

TEST_CASE("broken: swapped receives from two links wait in a circle") {
  refused(
      [](Schedule& s) {
        swap(s, 1, "RecvStart p0 s1 m1 activation", "RecvStart p1 s2 m3 activation");
      },
      {"deadlock under blocking rendezvous: worker ", " waits for worker "});
}

TEST_CASE("broken: receive just before use, send just after, waits in a circle") {
  // Neighbours of the two directions send to each other in the same tick, each before it receives.
  refused(
      [](Schedule& s) {
        for (Program& p : s.programs) {
          Body late;
          std::vector<Instr> held;
          for (const Instr& in : p.body) {
            if (in.op == Op::RecvStart) {
              held.push_back(in);
              continue;
            }
            if (in.op == Op::RecvWait) {
              const auto it = std::ranges::find_if(held, [&](const Instr& h) {
                return h.pipe == in.pipe && h.stage == in.stage && h.micro == in.micro &&
                       h.message == in.message;
              });
              late.push_back(*it);
            }
            late.push_back(in);
          }
          p.body = late;
        }
      },
      {"deadlock under blocking rendezvous", ": a circle"},
      build_schedule({.depth = 4, .micro_batches = 4}));
}

TEST_CASE("broken: missing sync of a stage") {
  refused(
      [](Schedule& s) {
        for (const int w : {1, 2})
          erase(s, w, "AllReduceWait s2"), erase(s, w, "AllReduceStart s2");
      },
      {"worker 1, body[", "Verdict", "stage 2 has 2 contributions and is not reduced"});
}

TEST_CASE("broken: one member stays away from a reduction") {
  refused([](Schedule& s) { erase(s, 2, "AllReduceWait s2"), erase(s, 2, "AllReduceStart s2"); },
          {"worker 2, body[", "AllReduceStart s1", "worker 1 has at this point",
           "AllReduceStart s2", "must reduce in one order"});
  refused(
      [](Schedule& s) { erase(s, 3, "AllReduceWait s4"), erase(s, 3, "AllReduceStart s4"); },
      {"worker 0, body[", "AllReduceStart s4", "worker 3 holds the stage, too, and takes no part"});
}

TEST_CASE("broken: unequal order in groups") {
  refused(
      [](Schedule& s) {
        swap(s, 2, "AllReduceStart s2", "AllReduceStart s1");
        swap(s, 2, "AllReduceWait s2", "AllReduceWait s1");
      },
      {"worker 2, body[", "AllReduceStart s1", "must reduce in one order"});
}

TEST_CASE("broken: reductions where there is nothing to reduce, twice, or without a wait") {
  const Schedule one_way = build_schedule({.schedule = "1f1b", .depth = 2});
  refused(
      [](Schedule& s) {
        Instr in;
        in.op = Op::AllReduceStart, in.stage = in.group = 0, in.tick = 99;
        body(s, 0).insert(body(s, 0).end() - 2, in);
      },
      {"stage 0 has one contribution: there is nothing to reduce"}, one_way);
  refused([](Schedule& s) { erase(s, 1, "AllReduceWait s2"); },
          {"stage 2 has 2 contributions and is not"});
}

TEST_CASE("broken: a gradient is added while its sum is under way") {
  refused(
      [](Schedule& s) {
        for (const int w : {0, 3}) move_before(s, w, "AllReduceStart s0", "FreeSlot slot0");
        // Stage 0's last backward, on worker 0, now comes after the reduction has begun.
        move_before(s, 0, "AllReduceStart s0", "B p0 s0 m1");
        move_before(s, 3, "AllReduceStart s0", "B p1 s0 m3");
        for (const int w : {0, 3}) move_before(s, w, "AllReduceStart s3", "AllReduceStart s0");
      },
      {"it adds to gradients that are already being reduced"});
}

TEST_CASE("broken: a second backward") {
  refused(
      [](Schedule& s) {
        Body& list = body(s, 1);
        const std::size_t i = find(s, 1, "B p0 s1 m0");
        const Instr again = list[i];
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), again);
      },
      {"worker 1, body[", "B p0 s1 m0", "a second Backward of micro-batch 0"});
}

TEST_CASE("broken: a missing forward, backward or load") {
  refused([](Schedule& s) { erase(s, 1, "F p0 s1 m1"); },
          {"worker 1, body[", "SendStart p0 s1 m1 activation", "has not had its Forward"});
  refused([](Schedule& s) { erase(s, 3, "F p0 s3 m1"); },
          {"worker 3, body[", "B p0 s3 m1", "micro-batch 1 has not had its Forward"});
  refused([](Schedule& s) { erase(s, 2, "B p0 s2 m0"); },
          {"worker 2, body[", "SendStart p0 s2 m0 gradient", "has not had its Backward"});
  refused([](Schedule& s) { erase(s, 0, "B p0 s0 m1"); },
          {"worker 0, body[", "FreeSlot slot1", "which still needs its Backward"});
  refused([](Schedule& s) { erase(s, 0, "LoadMicro p0 s0 m0"); },
          {"worker 0, body[0] 't00 F p0 s0 m0"});
  refused([](Schedule& s) { erase(s, 3, "LoadMicro p0 s3 m0"); }, {"the targets of micro-batch 0"});
}

TEST_CASE("broken: computing before the input is there") {
  refused([](Schedule& s) { erase(s, 1, "RecvWait p0 s1 m0 activation"); },
          {"worker 1, body[", "F p0 s1 m0", "its input has not arrived"});
  refused([](Schedule& s) { erase(s, 1, "RecvWait p0 s1 m0 gradient"); },
          {"worker 1, body[", "B p0 s1 m0", "its gradient has not arrived"});
}

TEST_CASE("broken: a slot overruns the pool") {
  refused([](Schedule& s) { s.slots[1] = 3; },
          {"worker 1, body[", "slot 3 overruns the worker's pool of 3"});
}

TEST_CASE("broken: a slot is used by two micro-batches") {
  refused(
      [](Schedule& s) {
        for (Instr& in : body(s, 0))
          if (in.slot == 1) in.slot = 0;
      },
      {"worker 0, body[3] 't02 LoadMicro p0 s0 m1 slot0'", "slot 0 is in use",
       "it holds micro-batch 0 of stage 0, which still needs its Backward"});
}

TEST_CASE("broken: a slot is reused before its send is over") {
  const Schedule s = build_schedule({.schedule = "1f1b", .depth = 3, .micro_batches = 6});
  refused(
      [](Schedule& broken) {
        move_before(broken, 1, "RecvStart p0 s1 m3", "SendWait p0 s1 m0 gradient");
      },
      {"worker 1, body[", "RecvStart p0 s1 m3 activation",
       "is in use: it holds micro-batch 0 of stage 1", "SendWait missing"},
      s);
  refused([](Schedule& broken) { erase(broken, 1, "SendWait p0 s1 m0 gradient"); },
          {"worker 1, body[", "FreeSlot", "SendWait missing"}, s);
  refused([](Schedule& broken) { erase(broken, 1, "SendWait p0 s1 m0 activation"); },
          {"RecvStart p0 s1 m0 gradient", "the activation of this slot has had no SendWait"}, s);
}

TEST_CASE("broken: a slot is never freed, or freed while in use") {
  refused([](Schedule& s) { erase(s, 0, "FreeSlot slot1"); }, {"slot 1 is never freed"});
  refused([](Schedule& s) { move_before(s, 0, "FreeSlot slot0", "RecvWait p0 s0 m0 gradient"); },
          {"FreeSlot slot0", "slot 0 is in use"});
}

TEST_CASE("broken: a wrong peer, pipe or place") {
  refused([](Schedule& s) { body(s, 0)[find(s, 0, "SendStart p0 s0 m0")].peer = 2; },
          {"worker 0, body[2]", "its peer is worker 2, but stage 1 of pipe 0 is on worker 1"});
  refused([](Schedule& s) { body(s, 1)[find(s, 1, "F p0 s1 m0")].pipe = 1; },
          {"worker 1, body[", "stage 1 of pipe 1 is on worker 2"});
  refused([](Schedule& s) { std::swap(s.placement[0][0], s.placement[0][1]); },
          {"group 0 is not made of"});
  refused([](Schedule& s) { std::swap(s.groups[4].holders[0], s.groups[4].holders[1]); },
          {"group 4 is not made of the holders"});
}

TEST_CASE("broken: an update before the verdict, twice, or missing") {
  refused([](Schedule& s) { move_before(s, 2, "Update s1", "Verdict"); },
          {"worker 2, body[", "Update s1", "an Update before the Verdict"});
  refused([](Schedule& s) { body(s, 2).push_back(Instr(body(s, 2).back())); },
          {"worker 2, body[", "Update s2", "stage 2 is updated a second time"});
  refused([](Schedule& s) { erase(s, 3, "Update s4"); },
          {"worker 3, end of body: stage 4 is never updated"});
  refused([](Schedule& s) { body(s, 1)[find(s, 1, "Update s2")].stage = 3; },
          {"Update s3", "the worker does not hold stage 3"});
}

TEST_CASE("broken: backwards of a (pipe, stage) out of order") {
  // All gradients are there before the first backward of gpipe's first stage could be swapped, so
  // only the order of addition is wrong.
  const Schedule serial = build_schedule({.schedule = "gpipe", .depth = 1, .micro_batches = 3});
  refused(
      [](Schedule& s) {
        std::swap(body(s, 0)[find(s, 0, "B p0 s0 m0")], body(s, 0)[find(s, 0, "B p0 s0 m1")]);
        std::swap(body(s, 0)[find(s, 0, "FreeSlot slot0")],
                  body(s, 0)[find(s, 0, "FreeSlot slot1")]);
      },
      {"B p0 s0 m0", "must be added in ascending micro-batch order, and micro-batch 1 was before"},
      serial);
}

TEST_CASE("broken: a micro-batch on two pipes, or on none") {
  const Schedule one = build_schedule({.depth = 2, .micro_batches = 2});
  refused(
      [](Schedule& s) {
        for (Program& p : s.programs)
          for (Instr& in : p.body)
            if (in.micro == 1) in.micro = 0;
      },
      {"micro-batch 0 runs on pipe"}, one);
  refused([](Schedule& s) { s.micro_batches = 5; }, {"micro-batch 4 is never run"});
}

TEST_CASE("broken: work after the verdict, and a worker without one") {
  refused([](Schedule& s) { move_before(s, 0, "Verdict", "AllReduceStart s4"); },
          {"deadlock under blocking rendezvous", "Verdict' waits for worker 3", "a circle"});
  refused([](Schedule& s) { move_before(s, 0, "Verdict", "AllReduceStart s1"); },
          {"stage 1 has 2 contributions and is not reduced: its AllReduce is missing"},
          build_schedule({.schedule = "1f1b", .depth = 1, .tied = true}));
  refused([](Schedule& s) { move_before(s, 0, "Verdict", "FreeSlot slot2"); },
          {"only updates may follow the Verdict"});
  refused([](Schedule& s) { erase(s, 1, "Verdict"); },
          {"Update s1", "an Update before the Verdict"});
}

TEST_CASE("broken: training in an evaluation") {
  refused([](Schedule& s) { s.forward_only = true; },
          {"evaluation has forwards and activations only"});
}

TEST_CASE("broken: what this version has no rule for") {
  refused([](Schedule& s) { s.versions = 2; }, {"it stores 2 weight versions"});
  refused([](Schedule& s) { s.programs[0].prologue = {body(s, 0)[0]}; },
          {"has a prologue or an epilogue"});
  refused([](Schedule& s) { body(s, 0)[0].op = Op::Recompute; }, {"has no rule in this version"});
  refused([](Schedule& s) { body(s, 0)[0].step = 1; }, {"step, version"});
}

TEST_CASE("every single instruction is needed") {
  for (const Request& request :
       {Request{.depth = 4, .micro_batches = 5, .tied = true},
        Request{.schedule = "1f1b", .depth = 3, .micro_batches = 4, .width = 2, .tied = true},
        Request{.schedule = "gpipe", .depth = 1, .micro_batches = 2, .tied = true}}) {
    const Schedule whole = build_schedule(request);
    for (int w = 0; w < request.depth; ++w)
      for (std::size_t i = 0; i < whole.programs[static_cast<std::size_t>(w)].body.size(); ++i) {
        Schedule s = whole;
        CAPTURE(request.schedule, w, i, to_string(body(s, w)[i]));
        body(s, w).erase(body(s, w).begin() + static_cast<std::ptrdiff_t>(i));
        CHECK_THROWS_AS(verify(s), Error);
        s = whole;
        body(s, w).insert(body(s, w).begin() + static_cast<std::ptrdiff_t>(i),
                          Instr(body(s, w)[i]));
        CHECK_THROWS_AS(verify(s), Error);
      }
  }
}

}  // namespace
}  // namespace chimera::schedule
