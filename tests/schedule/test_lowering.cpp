// What the executor may rely on (the list in src/schedule/README.md).
#include <algorithm>
#include <map>

#include "chimera/schedule/build.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

std::vector<std::string> lines(const Schedule& s, int worker) {
  std::vector<std::string> out;
  for (const Instr& in : s.programs[static_cast<std::size_t>(worker)].body)
    out.push_back(to_string(in));
  return out;
}

std::vector<Instr> only(const Schedule& s, int worker, std::initializer_list<Op> ops) {
  std::vector<Instr> out;
  for (const Instr& in : s.programs[static_cast<std::size_t>(worker)].body)
    if (std::ranges::find(ops, in.op) != ops.end()) out.push_back(in);
  return out;
}

TEST_CASE("serial training is load, forward, backward per micro-batch in one slot") {
  const Schedule s = build_schedule({.schedule = "1f1b", .depth = 1, .micro_batches = 2});
  CHECK(s.slots == std::vector<int>{1});
  CHECK(lines(s, 0) ==
        std::vector<std::string>{
            "t00 LoadMicro p0 s0 m0 slot0", "t00 F p0 s0 m0 slot0", "t01 B p0 s0 m0 slot0",
            "t01 FreeSlot slot0", "t02 LoadMicro p0 s0 m1 slot0", "t02 F p0 s0 m1 slot0",
            "t03 B p0 s0 m1 slot0", "t03 FreeSlot slot0", "t05 Verdict", "t06 Update s0"});
}

TEST_CASE("a chimera worker of depth 2, line by line") {
  const Schedule s = build_schedule({.depth = 2, .micro_batches = 2, .tied = true});
  // Worker 0 is the first stage of the way down and the last of the way up.
  CHECK(lines(s, 0) == std::vector<std::string>{"t00 LoadMicro p0 s0 m0 slot0",
                                                "t00 F p0 s0 m0 slot0",
                                                "t00 SendStart p0 s0 m0 activation slot0 w1",
                                                "t00 RecvStart p1 s1 m1 activation slot1 w1",
                                                "t01 LoadMicro p1 s1 m1 slot1",
                                                "t01 RecvWait p1 s1 m1 activation slot1 w1",
                                                "t01 F p1 s1 m1 slot1",
                                                "t02 B p1 s1 m1 slot1",
                                                "t02 SendWait p0 s0 m0 activation slot0 w1",
                                                "t02 RecvStart p0 s0 m0 gradient slot0 w1",
                                                "t02 SendStart p1 s1 m1 gradient slot1 w1",
                                                "t03 RecvWait p0 s0 m0 gradient slot0 w1",
                                                "t03 B p0 s0 m0 slot0",
                                                "t03 FreeSlot slot0",
                                                "t04 AllReduceStart s1 g1",
                                                "t04 AllReduceWait s1 g1",
                                                "t04 AllReduceStart s0 g0",
                                                "t04 AllReduceWait s0 g0",
                                                "t04 AllReduceStart s2 g2",
                                                "t04 AllReduceWait s2 g2",
                                                "t04 SendWait p1 s1 m1 gradient slot1 w1",
                                                "t04 FreeSlot slot1",
                                                "t05 Verdict",
                                                "t06 Update s0",
                                                "t06 Update s1",
                                                "t06 Update s2"});
}

TEST_CASE(
    "a pool holds the peak in flight, one more where it sends gradients, if it fills that many") {
  for (const ScheduleInfo& info : known_schedules())
    for (const int N : {1, 3, 6, 14}) {
      const Schedule s = build_schedule({.schedule = info.name, .depth = 6, .micro_batches = N});
      const VerifyReport report = verify(s);
      for (int w = 0; w < 6; ++w) {
        const auto sends = only(s, w, {Op::SendStart});
        const bool gradients = std::ranges::any_of(
            sends, [](const Instr& in) { return in.message == Message::Gradient; });
        CAPTURE(info.name, N, w);
        CHECK(s.slots[static_cast<std::size_t>(w)] ==
              std::min(report.workers[static_cast<std::size_t>(w)].in_flight + gradients,
                       static_cast<int>(only(s, w, {Op::Forward}).size())));
      }
    }
}

TEST_CASE("the last send from a slot is awaited as late as possible") {
  // In 1f1b the middle worker's pool has one slot more than it needs for micro-batches in flight,
  // so each gradient has a forward and a backward's time to leave before its slot is wanted again.
  const Schedule s = build_schedule({.schedule = "1f1b", .depth = 3, .micro_batches = 8});
  const std::vector<Instr>& body = s.programs[1].body;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].op != Op::SendWait || body[i].message != Message::Gradient) continue;
    CAPTURE(to_string(body[i]));
    REQUIRE(i + 2 < body.size());
    CHECK(body[i + 1].op == Op::FreeSlot);
    const bool at_end = body[i].tick > 2 * 7 + 2 * 3 - 1 - 1;  // after the worker's last Backward
    CHECK((at_end || (body[i + 2].op == Op::RecvStart && body[i + 2].slot == body[i].slot)));
  }
}

TEST_CASE(
    "stages are reduced only where contributions meet, larger stage first, the tied matrix last") {
  const auto reductions = [](const Request& request, int worker) {
    std::vector<int> out;
    for (const Instr& in : only(build_schedule(request), worker, {Op::AllReduceStart}))
      out.push_back(in.stage);
    return out;
  };
  using Stages = std::vector<int>;
  CHECK(reductions({.schedule = "1f1b", .depth = 4}, 0) == Stages{});
  CHECK(reductions({.schedule = "1f1b", .depth = 4, .width = 2}, 1) == Stages{1});
  CHECK(reductions({.schedule = "1f1b", .depth = 4, .tied = true}, 0) == Stages{4});
  CHECK(reductions({.schedule = "1f1b", .depth = 4, .tied = true}, 1) == Stages{});
  CHECK(reductions({.schedule = "1f1b", .depth = 1, .tied = true}, 0) == Stages{1});
  CHECK(reductions({.depth = 4}, 1) == Stages{2, 1});
  CHECK(reductions({.depth = 4, .tied = true}, 3) == Stages{3, 0, 4});
  CHECK(reductions({.depth = 8, .pipeline_pairs = 2}, 0) == Stages{7, 4, 3, 0});
}

TEST_CASE("groups list contributions by pipe and use") {
  const Schedule s = build_schedule({.depth = 4, .tied = true});
  REQUIRE(s.groups.size() == 5);
  CHECK(s.groups[1] == Group{1, {{1, 0, 0}, {2, 1, 0}}});
  CHECK(s.groups[4] == Group{4, {{0, 0, 0}, {3, 0, 1}, {3, 1, 0}, {0, 1, 1}}});
  const Schedule serial = build_schedule({.schedule = "1f1b", .depth = 1, .tied = true});
  CHECK(serial.groups[1] == Group{1, {{0, 0, 0}, {0, 0, 1}}});
}

TEST_CASE(
    "first and last stage load each micro-batch just before its forward; no other stage does") {
  const Schedule s = build_schedule({.depth = 6, .micro_batches = 11});
  for (int w = 0; w < 6; ++w) {
    std::map<std::pair<int, int>, int> loads;
    for (const Instr& in : only(s, w, {Op::LoadMicro, Op::Forward})) {
      const bool end = in.stage == 0 || in.stage == 5;
      if (in.op == Op::LoadMicro) {
        CHECK(end);
        ++loads[{in.stage, in.micro}];
      } else {
        CHECK(loads[{in.stage, in.micro}] == (end ? 1 : 0));
      }
    }
  }
}

TEST_CASE("a plan that is no schedule is not lowered") {
  ComputePlan plan = generate({.schedule = "1f1b", .depth = 2, .micro_batches = 2});
  const auto refused = [](const ComputePlan& broken, const char* piece) {
    CHECK_THROWS_WITH(lower(broken, {}), Catch::Contains(piece));
  };
  ComputePlan collision = plan;
  collision.workers[0][1].tick = 0;
  refused(collision, "in one tick");
  ComputePlan early = plan;
  early.workers[1][0].tick = 0;  // the forward of stage 1 in the tick of stage 0's
  refused(early, "before its activation is made");
  ComputePlan neighbours = plan;
  neighbours.placement = {{0, 0}};
  refused(neighbours, "are on the same worker 0");
  ComputePlan outside = plan;
  outside.workers[0][0].micro = 2;
  refused(outside, "crosses slots");
}

// Two micro-batches per forward, one per backward (forward doubling): two stages, one pipe.
ComputePlan doubled() {
  ComputePlan plan = generate({.schedule = "1f1b", .depth = 2, .micro_batches = 4});
  const auto make = [](int tick, Op op, int stage, int micro, int count) {
    Instr in;
    in.tick = tick, in.op = op, in.pipe = 0, in.stage = stage, in.micro = micro, in.count = count;
    return in;
  };
  for (int s = 0; s < 2; ++s) {
    std::vector<Instr>& list = plan.workers[static_cast<std::size_t>(s)];
    list.clear();
    for (int pair = 0; pair < 2; ++pair)
      list.push_back(make(s + 6 * pair, Op::Forward, s, 2 * pair, 2));
    for (int m = 0; m < 4; ++m)
      list.push_back(make(3 - s + 2 * (m % 2) + 6 * (m / 2), Op::Backward, s, m, 1));
    std::ranges::sort(list, {}, &Instr::tick);
  }
  return plan;
}

TEST_CASE("a forward may span micro-batches whose backwards come one by one") {
  const Schedule s = lower(doubled(), {});
  const VerifyReport report = verify(s);
  CHECK(report.workers[0].in_flight == 2);
  CHECK(s.slots == std::vector<int>{1, 2});  // one slot holds both; the second lets gradients leave
  CHECK(report.workers[0].messages == 2);    // activations travel in pairs
  CHECK(report.workers[1].messages == 4);    // gradients one by one
}

TEST_CASE("a backward may be split: the gradient leaves after its first half") {
  ComputePlan plan = generate({.schedule = "1f1b", .depth = 3, .micro_batches = 4});
  for (std::vector<Instr>& list : plan.workers) {
    std::vector<Instr> split;
    for (Instr in : list) {
      in.tick *= 2;
      if (in.op == Op::Backward) in.op = Op::BackwardInput;
      split.push_back(in);
      if (in.op != Op::BackwardInput) continue;
      in.op = Op::BackwardWeight;
      ++in.tick;
      split.push_back(in);
    }
    list = split;
  }
  const Schedule s = lower(plan, {});
  CHECK(verify(s).workers[0].in_flight == 3);
  const std::vector<Instr> seen =
      only(s, 2, {Op::BackwardInput, Op::SendStart, Op::BackwardWeight});
  REQUIRE(seen.size() == 12);
  CHECK(seen[1].op == Op::SendStart);
  CHECK(seen[2].op == Op::BackwardWeight);
}

}  // namespace
}  // namespace chimera::schedule
