// configs/README.md has the table of configuration keys that `chimera config explain` prints.
#include "chimera/setup/config_file.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

// What stands between two marks, without the line ends next to them.
std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const auto begin = text.find(open);
  const auto end = text.find(close);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const auto first = begin + open.size() + 1;
  REQUIRE(first < end);
  return text.substr(first, end - first);
}

}  // namespace

TEST_CASE("the table of configuration keys in configs/README.md is what config explain prints") {
  const std::string table = between(slurp(source_folder() / "configs/README.md"),
                                    "<!-- config-reference -->", "<!-- /config-reference -->");
  INFO(
      "put the output of `chimera config explain` between the config-reference marks of "
      "configs/README.md");
  CHECK(table == explain_config());
}
