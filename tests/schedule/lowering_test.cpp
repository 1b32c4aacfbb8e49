// What the executor may rely on (the rules in src/schedule/README.md).
#include <algorithm>
#include <map>
#include <set>

#include "chimera/schedule/build.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

using Lines = std::vector<std::string>;
using Numbers = std::vector<int>;

Lines lines(const Schedule& s, int worker) {
  Lines out;
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

Lines lines_from(const Schedule& s, int worker, const std::string& first) {
  const Lines all = lines(s, worker);
  const auto begin = std::ranges::find(all, first);
  REQUIRE(begin != all.end());
  return {begin, all.end()};
}

TEST_CASE("serial training is load, forward, backward per micro-batch in one buffer") {
  const Schedule s = build_schedule({.schedule = "1f1b", .depth = 1, .micro_batches = 2});
  CHECK(s.activation_buffers == Numbers{1});
  CHECK(s.boundary_buffers == Numbers{1});
  CHECK(lines(s, 0) == Lines{"t00 LoadMicro p0 s0 m0", "t00 F p0 s0 m0", "t01 B p0 s0 m0",
                             "t01 Release p0 s0 m0", "t02 LoadMicro p0 s0 m1", "t02 F p0 s0 m1",
                             "t03 B p0 s0 m1", "t03 Release p0 s0 m1", "t04 StepSyncStart",
                             "t04 StepSyncWait", "t05 Update s0"});
}

TEST_CASE("a chimera worker of depth 2, line by line") {
  const Schedule s = build_schedule({.depth = 2, .micro_batches = 2, .tied = true});
  // Worker 0 is the first stage of the way down and the last of the way up.
  CHECK(lines(s, 0) == Lines{"t00 LoadMicro p0 s0 m0",
                             "t00 F p0 s0 m0",
                             "t00 SendStart p0 s0 m0 activation w1",
                             "t00 RecvStart p1 s1 m1 activation w1",
                             "t01 LoadMicro p1 s1 m1",
                             "t01 RecvWait p1 s1 m1 activation w1",
                             "t01 F p1 s1 m1",
                             "t02 B p1 s1 m1",
                             "t02 SendWait p0 s0 m0 activation w1",
                             "t02 RecvStart p0 s0 m0 gradient w1",
                             "t02 SendStart p1 s1 m1 gradient w1",
                             "t03 RecvWait p0 s0 m0 gradient w1",
                             "t03 B p0 s0 m0",
                             "t03 Release p0 s0 m0",
                             "t03 AllReduceStart s1 g1",
                             "t03 AllReduceStart s0 g0",
                             "t03 AllReduceStart s2 g2",
                             "t03 SendWait p1 s1 m1 gradient w1",
                             "t03 Release p1 s1 m1",
                             "t03 AllReduceWait s1 g1",
                             "t03 AllReduceWait s0 g0",
                             "t03 AllReduceWait s2 g2",
                             "t04 StepSyncStart",
                             "t04 StepSyncWait",
                             "t05 Update s0",
                             "t05 Update s1",
                             "t05 Update s2"});
}

TEST_CASE("pipedream of depth 2, line by line") {
  const Schedule s = build_schedule({.schedule = "pipedream", .depth = 2, .micro_batches = 1});
  CHECK(s.period == 2);
  CHECK(s.versions == Numbers{2, 1});
  CHECK(s.activation_buffers == Numbers{2, 1});
  // A forward goes out in every iteration, then the gradient of the one before comes back; the
  // step synchronisation is a report that has an iteration per pipeline's length to arrive. Stage 0
  // forwards step k on the weights that step k - 2 made, and its backward uses the same.
  CHECK(lines(s, 0) == Lines{"t00 Update s0 step-2", "t00 LoadMicro p0 s0 m0", "t00 F p0 s0 m0 v1",
                             "t00 SendStart p0 s0 m0 activation w1",
                             "t00 SendWait p0 s0 m0 step-1 activation w1",
                             "t00 RecvStart p0 s0 m0 step-1 gradient w1",
                             "t01 RecvWait p0 s0 m0 step-1 gradient w1", "t01 B p0 s0 m0 step-1 v1",
                             "t01 Release p0 s0 m0 step-1", "t01 StepSyncStart step-2",
                             "t01 StepSyncWait step-4"});
  // The last stage updates between a backward and the next forward: no lag.
  CHECK(lines(s, 1) == Lines{"t00 B p0 s1 m0 step-1", "t00 RecvStart p0 s1 m0 activation w0",
                             "t00 SendStart p0 s1 m0 step-1 gradient w0", "t01 Update s1 step-1",
                             "t01 LoadMicro p0 s1 m0", "t01 RecvWait p0 s1 m0 activation w0",
                             "t01 F p0 s1 m0", "t01 SendWait p0 s1 m0 step-1 gradient w0",
                             "t01 Release p0 s1 m0 step-1", "t01 StepSyncStart step-2",
                             "t01 StepSyncWait step-4"});
}

TEST_CASE("pipedream-2bw of depth 2 with two replicas, line by line") {
  const Schedule s =
      build_schedule({.schedule = "pipedream-2bw", .depth = 2, .micro_batches = 2, .width = 2});
  CHECK(s.period == 4);
  CHECK(s.versions == Numbers{2, 2});
  CHECK(s.accumulators == Numbers{1, 1});
  // Two micro-batches per step. The second's backward ends in the next iteration; its sum and
  // update are waited for when the accumulator is needed: before that step's first backward.
  CHECK(lines(s, 0) == Lines{"t00 LoadMicro p0 s0 m0",
                             "t00 F p0 s0 m0 v1",
                             "t00 SendStart p0 s0 m0 activation w1",
                             "t00 SendWait p0 s0 m1 step-1 activation w1",
                             "t00 RecvStart p0 s0 m1 step-1 gradient w1",
                             "t01 RecvWait p0 s0 m1 step-1 gradient w1",
                             "t01 B p0 s0 m1 step-1 v1",
                             "t01 Release p0 s0 m1 step-1",
                             "t01 AllReduceStart s0 step-1 g0",
                             "t02 LoadMicro p0 s0 m1",
                             "t02 F p0 s0 m1 v1",
                             "t02 SendWait p0 s0 m0 activation w1",
                             "t02 RecvStart p0 s0 m0 gradient w1",
                             "t02 SendStart p0 s0 m1 activation w1",
                             "t03 AllReduceWait s0 step-1 g0",
                             "t03 Update s0 step-1",
                             "t03 RecvWait p0 s0 m0 gradient w1",
                             "t03 B p0 s0 m0 v1",
                             "t03 Release p0 s0 m0",
                             "t03 StepSyncStart step-1",
                             "t03 StepSyncWait step-2"});
}

TEST_CASE("recomputation stands between the gradient's RecvStart and its RecvWait") {
  const Schedule s =
      build_schedule({.schedule = "1f1b", .depth = 2, .micro_batches = 2, .recompute = true});
  CHECK(lines_from(s, 0, "t02 RecvStart p0 s0 m0 gradient w1") ==
        Lines{"t02 RecvStart p0 s0 m0 gradient w1", "t02 SendStart p0 s0 m1 activation w1",
              "t03 R p0 s0 m0", "t03 RecvWait p0 s0 m0 gradient w1", "t03 B p0 s0 m0",
              "t03 Release p0 s0 m0", "t04 SendWait p0 s0 m1 activation w1",
              "t04 RecvStart p0 s0 m1 gradient w1", "t05 R p0 s0 m1",
              "t05 RecvWait p0 s0 m1 gradient w1", "t05 B p0 s0 m1", "t05 Release p0 s0 m1",
              "t06 StepSyncStart", "t06 StepSyncWait", "t07 Update s0"});
  // It uses the version of its forward and its backward.
  const Schedule stale =
      build_schedule({.schedule = "pipedream", .depth = 3, .micro_batches = 1, .recompute = true});
  for (int w = 0; w < 3; ++w)
    for (const Instr& in : only(stale, w, {Op::Forward, Op::Recompute, Op::Backward}))
      CHECK(in.version == 2 - w);
}

TEST_CASE("every backward is recomputed once, in whatever unit it comes") {
  for (const Request& request :
       {Request{.depth = 4, .micro_batches = 16, .scaling = "doubling", .recompute = true},
        Request{.depth = 4, .micro_batches = 4, .split_backward = true, .recompute = true}}) {
    const Schedule s = build_schedule(request);
    for (int w = 0; w < 4; ++w) {
      const std::vector<Instr> both = only(s, w, {Op::Recompute, Op::Backward, Op::BackwardInput});
      REQUIRE(both.size() % 2 == 0);
      for (std::size_t i = 0; i < both.size(); i += 2) {
        CHECK(both[i].op == Op::Recompute);
        CHECK(both[i + 1].op != Op::Recompute);
        CHECK(both[i].micro == both[i + 1].micro);
        CHECK(both[i].count == both[i + 1].count);
      }
      // A forward gives its activation buffer back at once; a whole backward needs one at a time.
      if (!request.split_backward) CHECK(s.activation_buffers[static_cast<std::size_t>(w)] == 1);
    }
  }
}

TEST_CASE("sharded optimizers: scatter, norms, step synchronisation, update, gather") {
  const Schedule s =
      build_schedule({.depth = 2, .micro_batches = 2, .width = 2, .tied = true, .zero_stage = 1});
  CHECK(lines_from(s, 0, "t03 ReduceScatterStart s1 g1") ==
        Lines{"t03 ReduceScatterStart s1 g1",
              "t03 ReduceScatterStart s0 g0",
              "t03 ReduceScatterStart s2 g2",
              "t03 SendWait p1 s1 m1 gradient w1",
              "t03 Release p1 s1 m1",
              "t03 ReduceScatterWait s1 g1",
              "t03 ReduceScatterWait s0 g0",
              "t03 ReduceScatterWait s2 g2",
              "t04 GradNorm s0 g0",
              "t04 GradNorm s1 g1",
              "t04 GradNorm s2 g2",
              "t04 StepSyncStart",
              "t04 StepSyncWait",
              "t05 Update s0",
              "t05 AllGatherStart s0 g0",
              "t05 Update s1",
              "t05 AllGatherStart s1 g1",
              "t05 Update s2",
              "t05 AllGatherStart s2 g2",
              "t06 AllGatherWait s0 g0",
              "t06 AllGatherWait s1 g1",
              "t06 AllGatherWait s2 g2"});
  // A stage that one worker holds alone has nothing to share; the tied matrix of D = 1 is summed
  // from two uses on one worker.
  const Schedule serial = build_schedule(
      {.schedule = "1f1b", .depth = 1, .micro_batches = 1, .tied = true, .zero_stage = 1});
  CHECK(only(serial, 0, {Op::ReduceScatterStart, Op::GradNorm, Op::AllGatherStart}).empty());
  CHECK(only(serial, 0, {Op::AllReduceStart}).size() == 1);
}

// Stages that a worker starts to reduce before its last computation.
std::vector<std::set<int>> eager_stages(const Schedule& s) {
  std::vector<std::set<int>> out;
  for (const Program& program : s.programs) {
    std::set<int>& stages = out.emplace_back();
    std::set<int> started;
    for (const Instr& in : program.body) {
      if (in.op == Op::AllReduceStart) started.insert(in.stage);
      if (is_compute(in.op)) stages = started;
    }
  }
  return out;
}

TEST_CASE("eager and eager-opt reductions of the paper's Fig. 4") {
  using Stages = std::vector<std::set<int>>;
  const auto at = [](const char* sync) {
    return build_schedule({.depth = 4, .micro_batches = 4, .gradient_sync = sync});
  };
  CHECK(eager_stages(at("lazy")) == Stages{{}, {}, {}, {}});
  // Eager: the larger stage of every worker; the smaller is complete with its last computation.
  CHECK(eager_stages(at("eager")) == Stages{{3}, {2}, {2}, {3}});
  // P0 and P3 reduce stage 3 eagerly; P1 and P2, which have no bubble left, at the end.
  CHECK(eager_stages(at("eager-opt")) == Stages{{3}, {}, {}, {3}});
  // Right behind the messages of the backward that completed it.
  const Lines p0 = lines(at("eager-opt"), 0);
  const auto start = std::ranges::find(p0, "t06 AllReduceStart s3 g3");
  REQUIRE(start != p0.end());
  CHECK(*(start - 1) == "t06 SendStart p1 s3 m3 gradient w1");
  CHECK(*(start + 1) == "t07 RecvWait p0 s0 m0 gradient w1");
  CHECK(lines_from(at("eager-opt"), 0, "t09 AllReduceStart s0 g0") ==
        Lines{"t09 AllReduceStart s0 g0", "t09 SendWait p1 s3 m3 gradient w1",
              "t09 Release p1 s3 m3", "t09 AllReduceWait s3 g3", "t09 AllReduceWait s0 g0",
              "t10 StepSyncStart", "t10 StepSyncWait", "t11 Update s0", "t11 Update s3"});
}

TEST_CASE("eager-opt reduces the stages above D/2 early, and no others") {
  for (int D = 2; D <= 16; D += 2)
    for (int K = 1; K <= 3; ++K) {
      CAPTURE(D, K);
      const Schedule s =
          build_schedule({.depth = D, .micro_batches = K * D, .gradient_sync = "eager-opt"});
      std::set<int> early, expected;
      for (const std::set<int>& stages : eager_stages(s))
        early.insert(stages.begin(), stages.end());
      for (int stage = D / 2 + 1; stage < D; ++stage) expected.insert(stage);
      CHECK(early == expected);
    }
}

TEST_CASE("activation buffers are the micro-batches in flight") {
  // With blocks of one micro-batch, and without recomputation, a pool is the peak that the verifier
  // counts from Forward to Backward.
  for (const ScheduleInfo& info : known_schedules())
    for (const int N : {1, 6, 12, 13}) {
      const Request request{.schedule = info.name, .depth = 6, .micro_batches = N};
      if (!refusal(request).empty()) continue;
      const Schedule s = build_schedule(request);
      const VerifyReport report = verify(s);
      for (std::size_t w = 0; w < 6; ++w) {
        CAPTURE(info.name, N, w);
        CHECK(s.activation_buffers[w] == report.workers[w].in_flight);
        CHECK(s.activation_buffers[w] == report.workers[w].activation_buffers);
        CHECK(s.boundary_buffers[w] == report.workers[w].boundary_buffers);
      }
    }
}

TEST_CASE("the last message of a buffer has until the next of its kind, or the end") {
  const Schedule s = build_schedule({.schedule = "1f1b", .depth = 3, .micro_batches = 8});
  const std::vector<Instr>& body = s.programs[1].body;
  int waits = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].op != Op::SendWait || body[i].message != Message::Gradient) continue;
    CAPTURE(to_string(body[i]));
    ++waits;
    REQUIRE(i + 2 < body.size());
    CHECK(body[i + 1].op == Op::Release);
    CHECK(body[i + 1].micro == body[i].micro);
    const bool next = body[i + 2].op == Op::SendStart && body[i + 2].message == Message::Gradient;
    CHECK((next || body[i + 2].op == Op::StepSyncStart));
  }
  CHECK(waits == 8);
}

TEST_CASE("an activation is waited for right before its gradient is received") {
  for (const Request& request :
       {Request{.depth = 6, .micro_batches = 13},
        Request{.depth = 4, .micro_batches = 16, .scaling = "doubling"},
        Request{.schedule = "pipedream", .depth = 4, .micro_batches = 1}}) {
    const Schedule s = build_schedule(request);
    for (const Program& p : s.programs)
      for (std::size_t i = 0; i < p.body.size(); ++i)
        if (p.body[i].op == Op::SendWait && p.body[i].message == Message::Activation) {
          CAPTURE(request.schedule, to_string(p.body[i]));
          std::size_t next = i + 1;  // two halves may have left singly
          while (p.body.at(next).op == Op::SendWait) ++next;
          CHECK(p.body[next].op == Op::RecvStart);
          CHECK(p.body[next].message == Message::Gradient);
          CHECK(p.body[next].stage == p.body[i].stage);
          CHECK(p.body[next].step == p.body[i].step);
        }
  }
}

TEST_CASE("in an evaluation a buffer is free before its worker's next activation leaves") {
  const Schedule s = build_evaluation(build_schedule({.depth = 4, .micro_batches = 4}), 6);
  for (const Program& p : s.programs) {
    bool under_way = false;
    for (const Instr& in : p.body) {
      if (in.op == Op::SendStart) {
        CHECK(!under_way);
        under_way = true;
      }
      if (in.op == Op::SendWait) under_way = false;
    }
    CHECK(!under_way);
  }
}

TEST_CASE("stages are reduced where contributions meet, larger stage first, the tied matrix last") {
  const auto reductions = [](const Request& request, int worker) {
    Numbers out;
    for (const Instr& in : only(build_schedule(request), worker, {Op::AllReduceStart}))
      out.push_back(in.stage);
    return out;
  };
  CHECK(reductions({.schedule = "1f1b", .depth = 4}, 0) == Numbers{});
  CHECK(reductions({.schedule = "1f1b", .depth = 4, .width = 2}, 1) == Numbers{1});
  CHECK(reductions({.schedule = "1f1b", .depth = 4, .tied = true}, 0) == Numbers{4});
  CHECK(reductions({.schedule = "1f1b", .depth = 4, .tied = true}, 1) == Numbers{});
  CHECK(reductions({.schedule = "1f1b", .depth = 1, .tied = true}, 0) == Numbers{1});
  CHECK(reductions({.schedule = "gems", .depth = 3}, 1) == Numbers{1});
  CHECK(reductions({.depth = 4}, 1) == Numbers{2, 1});
  CHECK(reductions({.depth = 4, .tied = true}, 3) == Numbers{3, 0, 4});
  CHECK(reductions({.depth = 8, .pipeline_pairs = 2}, 0) == Numbers{7, 4, 3, 0});
}

TEST_CASE(
    "with overlapping steps a stage is updated right before its next forward, at the latest") {
  const Schedule s = build_schedule(
      {.depth = 4, .micro_batches = 8, .split_backward = true, .overlap_steps = true});
  REQUIRE(s.period > 0);
  for (const Program& p : s.programs)
    for (std::size_t i = 0; i < p.body.size(); ++i) {
      if (p.body[i].op != Op::Update) continue;
      CAPTURE(to_string(p.body[i]));
      REQUIRE(i > 0);
      CHECK(p.body[i - 1].op == Op::AllReduceWait);
      const auto next = std::find_if(p.body.begin() + static_cast<std::ptrdiff_t>(i), p.body.end(),
                                     [](const Instr& in) { return is_compute(in.op); });
      REQUIRE(next != p.body.end());
      CHECK(next->op == Op::Forward);
      CHECK(next->stage == p.body[i].stage);
      CHECK(next->step == p.body[i].step + 1);
      CHECK(next->version == 0);
    }
}

TEST_CASE("groups list contributions by pipe and use") {
  const Schedule s = build_schedule({.depth = 4, .tied = true});
  REQUIRE(s.groups.size() == 5);
  CHECK(s.groups[1] == Group{1, {{1, 0, 0}, {2, 1, 0}}});
  CHECK(s.groups[4] == Group{4, {{0, 0, 0}, {3, 0, 1}, {3, 1, 0}, {0, 1, 1}}});
  const Schedule serial = build_schedule({.schedule = "1f1b", .depth = 1, .tied = true});
  CHECK(serial.groups[1] == Group{1, {{0, 0, 0}, {0, 0, 1}}});
}

TEST_CASE("the first and last stage load a micro-batch before its forward; no other stage does") {
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

TEST_CASE("computations read back from a lowered program") {
  for (const Request& request :
       {Request{.depth = 6, .micro_batches = 11},
        Request{.depth = 4, .micro_batches = 16, .scaling = "doubling", .recompute = true},
        Request{.schedule = "pipedream", .depth = 5, .micro_batches = 1},
        Request{.schedule = "pipedream-2bw", .depth = 3, .micro_batches = 4, .tied = true}}) {
    CAPTURE(request.schedule);
    const ComputePlan plan = generate(request), back = computations(lower(plan, {}));
    CHECK(back.workers == plan.workers);
    CHECK(back.period == plan.period);
    CHECK(back.placement == plan.placement);
  }
}

TEST_CASE("a plan that is no schedule is not lowered") {
  const ComputePlan plan = generate({.schedule = "1f1b", .depth = 2, .micro_batches = 2});
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
  refused(outside, "crosses buffers");
  ComputePlan rushed = generate({.schedule = "pipedream-2bw", .depth = 2, .micro_batches = 2});
  for (std::vector<Instr>& list : rushed.workers)
    for (Instr& in : list) in.version = 0;  // no step's gradients are there when the next begins
  refused(rushed, "worker 0 needs the updated stage 0 at tick 4, before its gradients");
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
  CHECK(s.span() == 2);
  CHECK(report.workers[0].in_flight == 2);
  CHECK(s.activation_buffers == Numbers{1, 1});  // a buffer holds both
  CHECK(report.workers[0].messages == 2);        // activations travel in pairs
  CHECK(report.workers[1].messages == 4);        // gradients one by one
}

TEST_CASE("doubling's forwards are pairs, or halves of a pair in one buffer, released together") {
  const Schedule s = build_schedule({.depth = 4, .micro_batches = 20, .scaling = "doubling"});
  CHECK(s.span() == 2);
  for (int w = 0; w < 4; ++w) {
    std::map<int, int> forwards, freed;  // per stage: micro-batches
    for (const Instr& in : only(s, w, {Op::Forward, Op::Backward, Op::Release})) {
      CHECK(in.micro / 2 == (in.micro + in.count - 1) / 2);
      if (in.op == Op::Forward) forwards[in.stage] += in.count;
      if (in.op == Op::Release) freed[in.stage] += in.count;
      if (in.op == Op::Backward) CHECK(in.count == 1);
      if (in.op == Op::Release) CHECK(in.count == 2);
    }
    CHECK(forwards == freed);
    for (const auto& [stage, micros] : forwards) CHECK(micros == 10);
  }
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
