// Schedules that are refused without running them: sizes, ranges and places (verify_shape.cpp).
// files_test.cpp has sizes that would take memory or time for ever.
#include <climits>

#include "broken.h"

namespace chimera::schedule::broken {
namespace {

TEST_CASE("broken: sizes out of range, by name") {
  const auto sized = [](int Schedule::*field, int value, const std::string& piece) {
    CAPTURE(value);
    refused(good(), [&](Schedule& s) { s.*field = value; }, {piece});
  };
  sized(&Schedule::depth, 0, "depth is 0; it must be 1 to 4096");
  sized(&Schedule::depth, 4097, "depth is 4097");
  sized(&Schedule::depth, 5, "programs has 4 entries for 5 workers");
  sized(&Schedule::micro_batches, -1, "micro_batches is -1");
  sized(&Schedule::micro_batches, 1 << 23, "are too many to verify");
  sized(&Schedule::virtual_stages, 0, "virtual_stages is 0");
  sized(&Schedule::virtual_stages, 2, "pipe 0 places 4 stages; there are 8");
  sized(&Schedule::width, 0, "width is 0");
  sized(&Schedule::period, -1, "period is -1");
  sized(&Schedule::pipeline_pairs, 2, "pipeline_pairs is 2 but placement has 2 pipes");
  refused(good(), [](Schedule& s) { s.activation_buffers.pop_back(); },
          {"activation_buffers has 3 entries for 4 workers"});
  refused(good(), [](Schedule& s) { s.boundary_buffers.push_back(1); },
          {"boundary_buffers has 5 entries for 4 workers"});
  refused(good(), [](Schedule& s) { s.activation_buffers[2] = -1; },
          {"worker 2 has -1 activation buffers"});
  refused(good(), [](Schedule& s) { s.versions.pop_back(); },
          {"versions has 4 entries for 5 groups"});
  refused(good(), [](Schedule& s) { s.versions[3] = 0; }, {"versions of group 3 is 0"});
  refused(good(), [](Schedule& s) { s.accumulators[4] = 0; }, {"accumulators of group 4 is 0"});
}

TEST_CASE("broken: a placement or groups that cannot be") {
  refused(good(), [](Schedule& s) { s.placement.clear(); }, {"placement has 0 pipes"});
  refused(good(), [](Schedule& s) { s.placement[1].pop_back(); }, {"pipe 1 places 3 stages"});
  refused(good(), [](Schedule& s) { s.placement[1][2] = 4; },
          {"pipe 1 places a stage on worker 4; there are 4"});
  refused(good(), [](Schedule& s) { std::swap(s.placement[0][0], s.placement[0][1]); },
          {"group 0 is not made of"});
  refused(good(), [](Schedule& s) { std::swap(s.groups[4].holders[0], s.groups[4].holders[1]); },
          {"group 4 is not made of the holders"});
  refused(good(), [](Schedule& s) { s.groups.pop_back(); },
          {"there are 4 groups; 4 stages and the tied matrix need 5"});
}

TEST_CASE("broken: a step or version ahead, or a lag under a barrier") {
  refused(good(), [](Schedule& s) { find(s, 0, "F p0 s0 m0").step = 1; },
          {"worker 0, body[1] 't00 F p0 s0 m0 step1'", "its step is ahead of the iteration"});
  refused(good(), [](Schedule& s) { find(s, 0, "F p0 s0 m0").version = -1; },
          {"worker 0, body[1]", "its weights cannot be newer than the step"});
  refused(good(), [](Schedule& s) { find(s, 0, "F p0 s0 m0").step = -1; },
          {"period is 0, a barrier after every step, but an instruction belongs to a step 1"});
  for (const int step : {-5000, INT_MIN})
    refused(good(),
            [&](Schedule& s) {
              s.period = 10;
              find(s, 0, "F p0 s0 m0").step = step;
            },
            {"iterations back; at most 4096"});
  refused(good(), [](Schedule& s) { find(s, 0, "F p0 s0 m0").tick = -1; }, {"its tick is not in"});
}

TEST_CASE("broken: a wrong peer, pipe, stage, micro-batch or worker") {
  const auto changed = [](int worker, const std::string& text, int Instr::*field, int value,
                          const std::string& piece) {
    CAPTURE(text, value);
    refused(good(), [&](Schedule& s) { find(s, worker, text).*field = value; },
            {concat("worker ", worker, ", body["), piece});
  };
  changed(0, "SendStart p0 s0 m0", &Instr::peer, 2,
          "its peer is worker 2, but stage 1 of pipe 0 is on worker 1");
  changed(1, "F p0 s1 m0", &Instr::pipe, 1, "stage 1 of pipe 1 is on worker 2");
  changed(1, "F p0 s1 m0", &Instr::pipe, 2, "there is no pipe 2");
  changed(1, "F p0 s1 m0", &Instr::stage, 4, "there is no stage 4");
  changed(1, "F p0 s1 m0", &Instr::micro, 4, "micro-batches 4 and on, 1 of them, are not within");
  changed(1, "F p0 s1 m0", &Instr::count, 0, "micro-batches 0 and on, 0 of them, are not within");
  changed(1, "AllReduceStart s2", &Instr::group, 1, "its group is not that of the stage, 2");
  changed(1, "Update s2", &Instr::stage, 5, "there is no stage 5");
  changed(1, "Update s2", &Instr::stage, 0, "the worker does not hold stage 0");
  refused(good(), [](Schedule& s) { find(s, 1, "F p0 s1 m0").message = Message::Activation; },
          {"F p0 s1 m0 activation", "a message is named by sends and receives, and by nothing"});
  refused(good(), [](Schedule& s) { find(s, 1, "SendStart").message = Message::None; },
          {"a message is named by sends and receives, and by nothing"});
  refused(good(), [](Schedule& s) { find(s, 0, "SendStart p0 s0").message = Message::Gradient; },
          {"stage 0 has no neighbour to exchange this gradient with"});
  refused(good(), [](Schedule& s) { find(s, 0, "F p0 s0 m0").op = static_cast<Op>(99); },
          {"worker 0, body[1]", "the operation is unknown"});
}

TEST_CASE("broken: neighbouring stages on one worker") {
  refused(build_schedule({.schedule = "gpipe", .depth = 2, .micro_batches = 1}),
          [](Schedule& s) {
            s.placement = {{0, 0}};
            s.groups[1].holders[0].worker = 0;
            for (const Instr& in : body(s, 1)) body(s, 0).push_back(in);
            body(s, 1).clear(), s.activation_buffers[1] = s.boundary_buffers[1] = 0;
            for (Instr& in : body(s, 0))
              if (in.peer >= 0) in.peer = 0;
          },
          {"worker 0, body[2]", "SendStart p0 s0 m0 activation w0",
           "a worker does not send to itself"});
}

}  // namespace
}  // namespace chimera::schedule::broken
