#include "chimera/base/json_reader.h"

#include <nlohmann/json.hpp>

#include "support/support.h"

namespace chimera {
namespace {

const std::string kFile = "f.json";

template <class Read>
void refused(const std::string& text, const Read& read, const std::string& message) {
  const Json json = parse_json(text, kFile);
  CHECK_THROWS_WITH(read(JsonReader(json, kFile)), message);
}

}  // namespace

TEST_CASE("json_reader: a value is refused with file, path, value and what is accepted") {
  const auto a = [](const char* what) {
    return [what](const JsonReader& r) {
      const JsonReader v = r["a"].list()[1];
      const std::string w = what;
      if (w == "count") v.count(1, 8, "workers");
      if (w == "open") v.count();
      if (w == "number") v.number({0.5, 2, ""});
      if (w == "flag") v.flag();
      if (w == "text") v.text(3);
      if (w == "choice") v.choice({"x", "y"});
      if (w == "object") v.only({});
      if (w == "list") v.list();
    };
  };
  const std::string is = "f.json: a[1] is ";
  refused(R"({"a": [1, 9]})", a("count"), is + "9; it must be a whole number from 1 to 8 workers");
  refused(R"({"a": [1, 2.0]})", a("count"),
          is + "2.0; it must be a whole number from 1 to 8 workers");
  refused(R"({"a": [1, 18446744073709551615]})", a("open"),
          is + "18446744073709551615; it must be a whole number from 0 on");
  refused(R"({"a": [1, 3]})", a("number"), is + "3; it must be a number from 0.5 to 2");
  refused(R"({"a": [1, 1]})", a("flag"), is + "1; it must be true or false");
  refused(R"({"a": [1, "four"]})", a("text"), is + "\"four\"; it must be a text of 1 to 3 bytes");
  refused(R"({"a": [1, ""]})", a("text"), is + "\"\"; it must be a text of 1 to 3 bytes");
  refused(R"({"a": [1, "z"]})", a("choice"), is + "\"z\"; it must be \"x\" or \"y\"");
  refused(R"({"a": [1, []]})", a("object"), is + "[]; it must be an object { ... }");
  refused(R"({"a": [1, {}]})", a("list"), is + "{}; it must be a list");
}

TEST_CASE("json_reader: keys are all known and all there") {
  const auto read = [](const JsonReader& r) { r["o"].only({"a", "b"}, {"c"}); };
  refused(R"({"o": {"a": 1}})", read, "f.json: o.b is missing");
  refused(R"({"o": {"a": 1, "B": 2}})", read, "f.json: o.b is missing; o.B is not a known key");
  refused(R"({"o": {"a": 1, "b": 2, "x\ny": 2}})", read,
          "f.json: o.x?y is not a known key; known are a, b, c");
  refused("[]", read, "f.json: the file is []; it must be an object { ... }");
  const Json json = parse_json(R"({"o": {"c": 1, "b": 2, "a": 3}})", kFile);
  CHECK_NOTHROW(read(JsonReader(json, kFile)));
}

TEST_CASE("json_reader: a file is of its format and version") {
  const JsonFormat format{"things", 2, "`make things` writes one", "all"};
  const auto open = [&](const std::string& text) {
    const Json json = parse_json(text, kFile);
    open_format(json, kFile, format);
  };
  CHECK_NOTHROW(open(R"({"format": "things", "version": 2})"));
  CHECK_THROWS_WITH(open(R"({"format": "other", "version": 2})"),
                    "f.json is not a things file: its format is not \"things\"; `make things` "
                    "writes one");
  CHECK_THROWS_WITH(open(R"({"format": "things", "version": 3})"),
                    "f.json: all.version is 3; this program reads version 2");
  CHECK_THROWS_WITH(open(R"({"format": "things"})"), "f.json: all.version is missing");
}

}  // namespace chimera
