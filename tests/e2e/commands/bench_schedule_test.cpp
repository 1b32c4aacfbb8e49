// chimera bench schedule, as a user types it.
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "support/support.h"

namespace chimera::test {
namespace {

CommandResult bench(const std::string& arguments) {
  return run_command(chimera_binary().string() + " bench schedule " + arguments);
}

}  // namespace

TEST_CASE("bench schedule prints and writes a row per schedule, refusals with their reason") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rows.json").string();
  const CommandResult r = bench("-D 2 -N 2 --forward-ms 2 --steps 2 --json " + file);
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  const Json json = read_json(file);
  CHECK(json["transport"] == "local");
  std::size_t measured = 0;
  for (const Json& row : json["rows"]) {
    CHECK_THAT(r.out, Catch::Contains("| " + row["schedule"].get<std::string>()));
    if (row.contains("refusal")) continue;
    ++measured;
    CHECK(row["ratio"].get<double>() > 0.95);  // nobody sleeps less than told
  }
  CHECK(measured >= 10);
  CHECK_THAT(r.out, Catch::Contains("| chimera f=2 | 2 | pipeline_pairs is 2"));
  // 1F1B: (D - 1 + N) of F and B; messages of the simulation are free.
  for (const Json& row : json["rows"])
    if (row["schedule"] == "1f1b") CHECK(row["simulated_seconds"].get<double>() == Approx(0.018));
}

TEST_CASE("bench schedule refuses numbers under which no schedule can run") {
  for (const auto& [arguments, piece] :
       {std::pair{"-D 0", "depth is 0"}, {"-W 0", "width is 0"}, {"--forward-ms nan", "nan"}}) {
    const CommandResult r = bench(arguments);
    INFO(arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Catch::Contains(piece));
  }
}

TEST_CASE("bench schedule --real measures stages and simulates them") {
  const CommandResult r = bench("--real -D 2 -N 2 -s chimera --steps 2 --samples 1");
  INFO(r.out << r.err);
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, Catch::Contains("| chimera | 2 | "));
}

TEST_CASE("bench schedule refuses what cannot run, with the way out") {
  const auto refused = [](const std::string& arguments, const std::string& reason) {
    const CommandResult r = bench(arguments);
    INFO(arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Catch::Contains(reason));
  };
  refused("-s nonsense", "schedule 'nonsense' is unknown; choose one of");
  refused("-s chimera -D 3", "depth is 3; chimera needs an even depth");
  refused("-D 2 --backward-ms 1 --weight-ms 2", "--weight-ms is 2");
  refused("-D 2 --forward-ms -1", "--forward-ms");
  refused("-D 4000", "4000");
}

}  // namespace chimera::test
