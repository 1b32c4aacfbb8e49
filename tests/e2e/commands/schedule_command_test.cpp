// chimera schedule, as a user types it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "support/support.h"

namespace chimera::test {
namespace {

CommandResult schedule(const std::string& arguments) {
  return run_command(chimera_binary().string() + " schedule " + arguments);
}

TEST_CASE("schedule show draws the paper's figure with its bubbles") {
  const CommandResult r = schedule("show --schedule chimera -D 4 -N 4");
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, Catch::Contains("P0    F0   .  F1  F2  B2  F3  B3  B0   .  B1      2\n"));
  CHECK_THAT(r.out, Catch::Contains("makespan 10, idle 2 per worker: bubble ratio 20.0 %"));
  CHECK_THAT(r.out, Catch::Contains("makespan 16, idle 4 per worker: bubble ratio 25.0 %"));
  CHECK_THAT(r.out, Catch::Contains("most micro-batches in flight per worker: 3 4 4 3"));
}

TEST_CASE("schedule show draws weight gradients, recomputations and steady steps") {
  CHECK_THAT(schedule("show -s 1f1b -D 2 -N 2 --recompute --backward 2").out,
             Catch::Contains(" R0  B0  B0"));
  const CommandResult flows = schedule("show -s pipedream -D 4 --backward 2");
  CHECK(flows.exit_code == 0);
  CHECK_THAT(flows.out, Catch::Contains("a steady step takes 3, idle 0 per worker"));
  CHECK_THAT(flows.out, Catch::Contains("weight versions per worker: 4 3 2 1"));
}

TEST_CASE("schedule show writes a trace that counts forwards in milliseconds") {
  TemporaryFolder folder;
  const std::string file = (folder / "t.json").string();
  REQUIRE(schedule("show -D 2 -N 2 --format trace -o " + file).exit_code == 0);
  const Json trace = parse_json(slurp(file), file);
  double end = 0;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X")
      end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  CHECK(end == Approx(6000));  // D F + (2D-2) B = 6 ms
}

TEST_CASE("schedule simulate prints makespan, bubbles by cause and memory") {
  const CommandResult r = schedule(
      "simulate -D 4 -N 4 --message-bytes 1e6 --bandwidth 8e6 --buffered --gradient-bytes 1e6");
  CHECK(r.exit_code == 0);
  // 16 of work and bubbles, 3D-5 messages of 1/8, and two reductions of 2 (2-1)/2 / 8 in a row.
  CHECK_THAT(r.out, Catch::Contains("17.125 s per step, bubble ratio 29.9 %; 1 step in 17.125 s"));
  CHECK_THAT(r.out, Catch::Contains("messages 875 ms, reductions and step synchronisation 250 ms"));
  CHECK_THAT(r.out, Catch::Contains("P1              12 s          1 s          1 s          2 s"));
  const CommandResult json = schedule("simulate -D 4 -N 4 --backward 3 --format json");
  CHECK(parse_json(json.out, "out")["makespan"] == 4.0 + 6 * 3);
}

TEST_CASE("schedule simulate reads a costs file, whose numbers options replace") {
  TemporaryFolder folder;
  const std::string file = (folder / "c.json").string();
  spit(file,
       R"({"format": "chimera-costs", "version": 2, "forward": [1, 2], "backward_input": 1})");
  // Stages of 1 + 3 and 2 + 4 seconds: the second is busy 2 * 6 after 1, and the first's backward.
  const CommandResult r = schedule("simulate -s 1f1b -D 2 -N 2 --costs " + file + " --format json");
  CHECK(r.exit_code == 0);
  CHECK(parse_json(r.out, "out")["makespan"] == 1.0 + 2 * (2 + 1 + 2) + 2);
  const CommandResult other =
      schedule("simulate -s 1f1b -D 2 -N 2 --forward 1 --backward 2 --format json --costs " + file);
  CHECK(parse_json(other.out, "out")["makespan"] == 9.0);
}

TEST_CASE("schedule compare lists every schedule, and why some cannot be") {
  const CommandResult r = schedule("compare -D 5 -N 5");
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, Catch::Contains("1f1b                           27 s   44.4 %"));
  CHECK_THAT(r.out, Catch::Contains("not possible here:\nchimera: depth is 5"));
  const Json rows = parse_json(schedule("compare -D 4 -N 8 --format json").out, "out");
  CHECK(rows[0]["name"] == "gpipe");
  CHECK(rows[0]["seconds"] == 33.0);
  CHECK(schedule("compare -D 4 -N 8 --format svg").out.starts_with("<svg "));
}

TEST_CASE(
    "a schedule goes to a file and is proved from it; a damaged one is refused by instruction") {
  TemporaryFolder folder;
  const std::string file = (folder / "s.json").string(), picture = (folder / "s.svg").string();
  REQUIRE(schedule("show -D 4 -N 6 --tied --format json -o " + file).exit_code == 0);
  const CommandResult good = schedule("verify --file " + file);
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, Catch::Contains("proved. 4 workers"));

  std::string text = slurp(file);
  const std::size_t i = text.find("t01 F p0 s1 m0");
  REQUIRE(i != text.npos);
  text.replace(i + 4, 1, "B");
  spit(file, text);
  const CommandResult bad = schedule("verify --file " + file);
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.err, Catch::Contains(file) && Catch::Contains("worker 1, body[") &&
                          Catch::Contains("t01 B p0 s1 m0") &&
                          Catch::Contains("has not had its Forward"));

  REQUIRE(schedule("show -D 32 -N 32 --format svg -o " + picture).exit_code == 0);
  CHECK(slurp(picture).starts_with("<svg "));
}

TEST_CASE("schedule verify --all prints what it proved") {
  const CommandResult r = schedule("verify --all -D 6 -N 12");
  CHECK(r.exit_code == 0);
  for (const char* name : {"gpipe", "1f1b", "chimera"}) CHECK_THAT(r.out, Catch::Contains(name));
}

TEST_CASE("bad usage of schedule exits with 2 and names the nearest choice") {
  const auto refused = [](const std::string& arguments, const std::string& piece) {
    const CommandResult r = schedule(arguments);
    CAPTURE(arguments, r.out, r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Catch::Contains(piece));
    CHECK(r.out.empty());
  };
  refused("show -D 5", "use 4 or 6, or schedule 1f1b");
  refused("show -s dapple", "choose one of gpipe, 1f1b, gems, chimera");
  refused("show -D 12 -f 4", "use 3");
  refused("show -N 0", "micro_batches is 0");
  refused("show -s 1f1b -f 2", "fixed number of pipelines: use 1");
  refused("show --format pdf", "choose text, svg, trace, instructions or json");
  refused("show --backward 0", "--backward is 0");
  refused("verify --all -D 1000", "choose D from 1 to 64");
  refused("verify --all --file x.json", "not both");
  refused("show -D four", "four");
  refused("draw", "not understood: draw");
  refused("show --backward 0 --format trace", "--backward is 0");
  refused("show --scaling tripling", "scaling 'tripling' is unknown");
  refused("simulate --format pdf", "choose text, json, trace or svg");
  refused("simulate --forward -1", "--forward is -1");
  refused("simulate --forward nan", "--forward is nan");
  refused("simulate --backward 2 --weight 3", "use less than that");
  refused("simulate --weight 1", "give both");
  refused("simulate --bandwidth 0", "--bandwidth is 0; it must be above 0");
  refused("simulate --contention 1", "cost contention is 1");
  refused("simulate --steps -3", "-3 steps");
  refused("simulate --steps 2000000000", "simulate fewer steps");
  refused("simulate --forward 1e300", "cost forward is 1e+300; it must be at most 1e+18");
  refused("simulate --split-backward -D -1", "depth is -1");
  refused("simulate --split-backward -f 1000000000", "pipeline_pairs is 1000000000");
  refused("simulate -D 256 -f 128 -W 16777216", "width is 16777216; it must be 1 to 65536");
  refused("tradeoff -D 0", "depth is 0");
  refused("tradeoff -D 4 -f 1000000000", "pipeline_pairs is 1000000000");
  refused("compare --format trace", "choose text, json or svg");
  refused("compare -D 0", "no schedule can run this; gpipe: depth is 0");
}

TEST_CASE("an output file takes the place of a file alone: no pipe, folder or link is replaced") {
  TemporaryFolder folder;
  const std::string kept = (folder / "kept").string();
  spit(kept, "old");
  REQUIRE(run_command("cd " + folder.path().string() + " && mkdir d && mkfifo p && ln -s kept l")
              .exit_code == 0);
  const auto show = [&](const char* name) {
    return schedule("show -D 2 -N 2 --format json -o " + (folder / name).string());
  };
  const CommandResult pipe = show("p"), directory = show("d");
  CHECK(pipe.exit_code == 1);
  CHECK_THAT(pipe.err, Catch::Contains("p is not a regular file; name a file to write"));
  CHECK(std::filesystem::is_fifo(folder / "p"));
  CHECK(directory.exit_code == 1);
  CHECK_THAT(directory.err, Catch::Contains("d is a directory; name a file to write"));
  CHECK(show("l").exit_code == 0);
  CHECK(std::filesystem::is_symlink(folder / "l"));
  CHECK(slurp(kept).starts_with("{"));
  const auto entries = std::filesystem::directory_iterator(folder.path());
  CHECK(std::distance(begin(entries), end(entries)) == 4);  // no temporary file stays
}

TEST_CASE("schedule verify refuses files that are not schedules") {
  TemporaryFolder folder;
  spit(folder / "a.json", "{\"depth\": 4}");
  const CommandResult other = schedule("verify --file " + (folder / "a.json").string());
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Catch::Contains("is not a chimera-schedule file"));
  const CommandResult missing = schedule("verify --file " + (folder / "none.json").string());
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, Catch::Contains("none.json"));
  const CommandResult costs = schedule("simulate --costs " + (folder / "a.json").string());
  CHECK(costs.exit_code == 1);
  CHECK_THAT(costs.err, Catch::Contains("is not a chimera-costs file"));
}

}  // namespace
}  // namespace chimera::test
