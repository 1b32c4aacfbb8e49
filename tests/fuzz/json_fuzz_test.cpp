#include "chimera/base/json.h"

#include <nlohmann/json.hpp>

#include "mutate.h"
#include "support/support.h"

namespace chimera::test {

TEST_CASE("JSON: mutated texts are refused, or parsed as the library itself parses them") {
  const std::vector<std::string> seeds = {
      R"({"model": {"preset": "gpt2-124m", "embd_pdrop": 0.1}, "data": {"train": ["a-*.bin"]},)"
      R"( "parallel": {"depth": 4, "split_backward": false}, "train": {"init_from": null}})",
      R"([1, -2, 3.5e-7, "\u00e9\n", [], {}, [[["x"]]], true])", "7", "\"text\""};
  const FuzzCount count = replay(seeds, 5000, [](const std::string& input) {
    const Json value = parse_json(input, "f");
    if (value != Json::parse(input)) throw std::runtime_error("parsed as another value");
  });
  CHECK(count.accepted >= 4);
  CHECK(count.refused > 4 * 5000 / 2);
}

TEST_CASE("JSON: limits hold exactly") {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  CHECK_NOTHROW(parse_json(nested(64), "f"));
  CHECK_THROWS_WITH(parse_json(nested(65), "f"), "f: nested deeper than 64 levels");
  CHECK_THROWS_WITH(parse_json(std::string(1'000'000, '['), "f"), Catch::Contains("deeper"));
  CHECK_THROWS_WITH(parse_json(R"({"a": {"b": 1, "\u0062": 2}})", "f"),
                    "f: the key \"b\" stands twice in one object");
  CHECK_THROWS_WITH(parse_json(std::string("{}\0x", 4), "f"), Catch::Contains("zero byte"));
  CHECK_THROWS_WITH(parse_json("{} x", "f"), Catch::Contains("line 1, column 4"));
  CHECK_THROWS_WITH(parse_json("1e999", "f"), Catch::Contains("overflow"));
  CHECK_THROWS_AS(parse_json("NaN", "f"), Error);
  CHECK_THROWS_AS(parse_json("\"\xc3\"", "f"), Error);
  CHECK_THROWS_AS(parse_json("1 // no", "f"), Error);
  CHECK(parse_json("1 // yes", "f", JsonComments::Allow) == 1);
}

}  // namespace chimera::test
