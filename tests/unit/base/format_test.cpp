#include "chimera/base/format.h"

#include "chimera/base/stopwatch.h"
#include "support/support.h"

using namespace chimera;

TEST_CASE("numbers are written as people read them") {
  CHECK(format("%s %03d", "a", 7) == "a 007");
  CHECK(format("%s", std::string(1000, 'x').c_str()).size() == 1000);
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(Index{34} << 20, 2) == "34.00 MiB");
  CHECK(human_bytes(Index{3} << 60) == "3072.0 PiB");
  CHECK(human_count(999) == "999");
  CHECK(human_count(83100) == "83.1k");
  CHECK(human_count(1.5e9) == "1.50G");
  CHECK(human_seconds(59) == "59s");
  CHECK(human_seconds(192) == "3m12s");
  CHECK(human_seconds(7260) == "2h01m");
  CHECK(percent(0.2) == "20.0 %");
  CHECK(percent(-1e-9) == "0.0 %");
  CHECK(percent(1.0 / 3, 2) == "33.33 %");
}

TEST_CASE("a stopwatch does not run backwards") {
  Stopwatch watch;
  const double first = watch.seconds();
  CHECK(first >= 0);
  CHECK(watch.seconds() >= first);
}
