// Schedules as text and as files, whole and damaged.
#include <random>

#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t i = text.find(from);
  REQUIRE(i != text.npos);
  return text.replace(i, from.size(), to);
}

TEST_CASE("an instruction reads back as it prints, whatever its fields") {
  std::mt19937 random(1);
  const auto pick = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
  };
  for (int i = 0; i < 2000; ++i) {
    Instr in;
    in.op = static_cast<Op>(pick(0, static_cast<int>(Op::Release)));
    for (int Instr::*field : {&Instr::tick, &Instr::count}) in.*field = pick(0, 200);
    for (int Instr::*field : {&Instr::pipe, &Instr::stage, &Instr::micro, &Instr::step,
                              &Instr::version, &Instr::peer, &Instr::group})
      in.*field = pick(-3, 3);
    in.message = static_cast<Message>(pick(0, 2));
    CAPTURE(to_string(in));
    CHECK(parse_instr(to_string(in)) == in);
  }
  CHECK(to_string(parse_instr("t07 B p1 s2 m5")) == "t07 B p1 s2 m5");
}

TEST_CASE("text that is no instruction is refused by word") {
  for (const auto& [text, piece] : {std::pair{"", "does not begin with a tick"},
                                    {"F p0", "does not begin with a tick"},
                                    {"t1", "'' is not an operation"},
                                    {"t1 G p0", "'G' is not an operation"},
                                    {"t1 F q0", "'q0' is not a field"},
                                    {"t1 F p", "'p' is not a field"},
                                    {"t1 F m99999999999999999999", "is not a field"},
                                    {"t1 F slot1", "'slot1' is not a field"}}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_instr(text), Catch::Contains(piece));
  }
}

TEST_CASE("a schedule reads back from its file") {
  for (const Request& request :
       {Request{.depth = 8, .micro_batches = 11, .pipeline_pairs = 2, .tied = true},
        Request{.schedule = "gpipe", .depth = 3, .micro_batches = 5, .width = 4, .zero_stage = 1},
        Request{.schedule = "pipedream", .depth = 4, .micro_batches = 1},
        Request{.depth = 4, .micro_batches = 8, .scaling = "doubling", .recompute = true}}) {
    const Schedule s = build_schedule(request);
    const Schedule back = from_json(to_json(s), "a.json");
    CHECK(back == s);
    CHECK_NOTHROW(verify(back));
    const Schedule evaluation = build_evaluation(s, 3);
    CHECK(from_json(to_json(evaluation), "b.json") == evaluation);
  }
}

TEST_CASE("a damaged file is refused by key") {
  const std::string good = to_json(build_schedule({.depth = 2, .micro_batches = 2}));
  const auto refused = [&](const std::string& text, const std::string& piece) {
    CHECK_THROWS_WITH(from_json(text, "x.json"),
                      Catch::Contains(piece) && Catch::Contains("x.json"));
  };
  refused("{}", "is not a chimera-schedule file");
  refused("[1]", "is not a chimera-schedule file");
  refused("{", "x.json");
  refused(replaced(good, "chimera-schedule", "other"), "is not a chimera-schedule file");
  refused(replaced(good, "\"version\": 3", "\"version\": 2"), "schedule.version is 2");
  refused(replaced(good, "\"depth\": 2,", ""), "schedule.depth is missing");
  refused(replaced(good, "\"depth\": 2", "\"deep\": 2"), "schedule.deep is not a known key");
  refused(replaced(good, "\"depth\": 2", "\"depth\": 2.5"),
          "schedule.depth is 2.5; it must be a whole number");
  refused(replaced(good, "\"depth\": 2", "\"depth\": 18446744073709551615"),
          "schedule.depth is 18446744073709551615; it must be a whole number");
  refused(replaced(good, "\"depth\": 2", "\"depth\": 4294967298"),
          "schedule.depth is 4294967298; it must be a whole number from -2147483648");
  refused(replaced(good, "\"tied\": false", "\"tied\": 0"),
          "schedule.tied is 0; it must be true or false");
  refused(replaced(good, "\"period\": 0,", ""), "schedule.period is missing");
  refused(replaced(good, "\"boundary_buffers\"", "\"edges\""), "schedule.edges is not a known key");
  refused(replaced(good, "t00 F p0", "t00 G p0"), "schedule.programs[0][1]: instruction 't00 G p0");
  refused(replaced(good, "\"use\": 0", "\"use\": \"a\""), "schedule.groups[0].holders[0].use");
}

TEST_CASE("sizes in a file are checked before memory is taken for them") {
  const Schedule good = build_schedule({.depth = 2, .micro_batches = 2});
  const auto refused = [&](int Schedule::*field, int value) {
    Schedule s = good;
    s.*field = value;
    CAPTURE(value);
    CHECK_THROWS_AS(verify(s), Error);
  };
  for (int Schedule::*field : {&Schedule::depth, &Schedule::micro_batches,
                               &Schedule::virtual_stages, &Schedule::pipeline_pairs})
    for (const int value : {-2'000'000'000, -1, 3, 1 << 20, 2'000'000'000}) refused(field, value);
  for (const int value : {-2'000'000'000, -1, 2'000'000'000}) refused(&Schedule::period, value);
  Schedule s;
  for (std::vector<int> Schedule::*list :
       {&Schedule::activation_buffers, &Schedule::boundary_buffers, &Schedule::versions,
        &Schedule::accumulators})
    for (const int value : {-2'000'000'000, -1, 2'000'000'000}) {
      s = good;
      (s.*list)[0] = value;
      CAPTURE(value);
      CHECK_THROWS_AS(verify(s), Error);
      (s.*list).clear();
      CHECK_THROWS_AS(verify(s), Error);
    }
  s = good;
  s.programs[0].body[1].step = -2'000'000'000;  // a lag that would take for ever
  CHECK_THROWS_AS(verify(s), Error);
  s = good;
  s.placement.clear();
  CHECK_THROWS_AS(verify(s), Error);
  s = good;
  s.placement[1].clear();
  CHECK_THROWS_AS(verify(s), Error);
  s = good;
  s.programs.pop_back();
  CHECK_THROWS_AS(verify(s), Error);
}

TEST_CASE("random damage is refused or harmless, never a crash or a hang") {
  const Schedule good = build_schedule({.depth = 4, .micro_batches = 3, .tied = true});
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  int harmless = 0;
  const int rounds = 4000;
  for (int round = 0; round < rounds; ++round) {
    Schedule s = good;
    std::vector<Instr>& list = s.programs[below(4)].body;
    Instr& in = list[below(list.size())];
    const int value = static_cast<int>(below(8)) - 2;
    switch (below(10)) {
      case 0: in.op = static_cast<Op>(below(20)); break;
      case 1: in.pipe = value; break;
      case 2: in.stage = value; break;
      case 3: in.micro = value; break;
      case 4: in.count = value; break;
      case 5: in.step = value; break;
      case 6: in.peer = value; break;
      case 7: in.message = static_cast<Message>(below(3)); break;
      case 8: in.group = value; break;
      default: std::swap(in, list[below(list.size())]);
    }
    try {
      verify(s);
      ++harmless;
    } catch (const Error&) {
    }
  }
  // Some damage is none: a value that was there before, or two instructions that commute.
  CHECK(harmless < rounds / 2);
}

}  // namespace
}  // namespace chimera::schedule
