// Measurements on ranks.
#include <nlohmann/json.hpp>

#include "e2e/project.h"

namespace chimera::test {

TEST_CASE("ranks: bench p2p and allreduce measure the ranks they are given, once") {
  const TemporaryFolder folder;
  const std::string file = (folder / "c.json").string();
  for (const char* what : {"p2p", "allreduce"}) {
    const CommandResult r =
        run_command(CHIMERA_MPIEXEC_N + std::string("2 ") + chimera_binary().string() + " bench " +
                    what + " --most-bytes 4096 --save " + file);
    INFO(r.out << r.err);
    REQUIRE(r.exit_code == 0);
    CHECK(r.out.find("over mpi, 2 ranks") == r.out.rfind("over mpi, 2 ranks"));
  }
  const Json calibration = read_json(file);
  for (const char* what : {"p2p", "allreduce"}) {
    REQUIRE(calibration[what].size() == 1);
    CHECK(calibration[what][0]["transport"] == "mpi");
    CHECK(calibration[what][0]["ranks"] == 2);
    CHECK(calibration[what][0]["points"].size() == 3);  // 256, 1024, 4096 bytes
  }
}

}  // namespace chimera::test
