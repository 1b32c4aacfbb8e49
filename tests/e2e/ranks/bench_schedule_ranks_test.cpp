// Schedules measured on ranks.
#include <nlohmann/json.hpp>

#include "e2e/project.h"

namespace chimera::test {

TEST_CASE("ranks: bench schedule runs every schedule on the ranks it is given, once") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rows.json").string();
  const std::string command =
      chimera_binary().string() + " bench schedule --forward-ms 2 --steps 2";
  const CommandResult r = run_command(CHIMERA_MPIEXEC_N "2 " + command + " -D 2 --json " + file);
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.out, Catch::Contains("2 workers (mpi)"));
  CHECK(r.out.find("| gpipe |") == r.out.rfind("| gpipe |"));
  const Json json = read_json(file);
  CHECK(json["transport"] == "mpi");
  for (const Json& row : json["rows"])
    if (!row.contains("refusal")) CHECK(row["ratio"].get<double>() > 0.95);
  const CommandResult wrong = run_command(CHIMERA_MPIEXEC_N "2 " + command + " -D 4");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Catch::Contains("the launcher started 2 processes"));
}

}  // namespace chimera::test
