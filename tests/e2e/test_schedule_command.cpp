// chimera schedule, as a user types it.
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
  refused("show -s dapple", "choose one of gpipe, 1f1b, chimera");
  refused("show -D 12 -f 4", "use 3");
  refused("show -N 0", "micro_batches is 0");
  refused("show -s 1f1b -f 2", "has one pipeline");
  refused("show --format pdf", "choose text, svg, instructions or json");
  refused("show --backward 0", "--backward is 0");
  refused("verify --all -D 1000", "choose D from 1 to 64");
  refused("verify --all --file x.json", "not both");
  refused("show -D four", "four");
  refused("draw", "not understood: draw");
}

TEST_CASE("schedule verify refuses files that are not schedules") {
  TemporaryFolder folder;
  spit(folder / "a.json", "{\"depth\": 4}");
  const CommandResult other = schedule("verify --file " + (folder / "a.json").string());
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Catch::Contains("is not a schedule file"));
  const CommandResult missing = schedule("verify --file " + (folder / "none.json").string());
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, Catch::Contains("none.json"));
}

}  // namespace
}  // namespace chimera::test
