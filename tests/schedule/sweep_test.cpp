// Every schedule up to a size is proved, in every variant and kind.
#include <map>
#include <set>

#include "chimera/schedule/sweep.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

TEST_CASE("every schedule to D = 16, N = 24 is proved") {
  const std::vector<SweepRow> rows = verify_all(16, 24);
  std::map<std::string, Index> schedules;
  for (const SweepRow& row : rows) {
    CAPTURE(row.schedule);
    CHECK(row.evaluations == row.schedules);
    CHECK(row.instructions > 0);
    schedules[row.schedule] = row.schedules;
  }
  for (const char* name : {"gpipe", "1f1b", "gems", "zb-h1"}) CHECK(schedules[name] == 16 * 24);
  CHECK(schedules["pipedream"] == 16);
  CHECK(schedules["pipedream-2bw"] == 24 * 16 - 16 * 15 / 2);  // N >= D
  // Divisors of D/2 for D = 2, 4 … 16: 1 2 2 3 2 4 2 4, so 20 pairs (D, f).
  CHECK(schedules["chimera"] == 20 * 24);
  CHECK(schedules["chimera split"] == 20 * 24);
  // Multiples of D to 24: 12 6 4 3 2 2 1 1.
  const int multiples = 12 * 1 + 6 * 2 + 4 * 2 + 3 * 3 + 2 * 2 + 2 * 4 + 1 * 2 + 1 * 4;
  CHECK(schedules["chimera doubling"] == multiples);
  // And, for D = 2 and 4 (one and two f), the N to 5 that are no multiples.
  CHECK(schedules["chimera overlap"] == multiples + 3 + 2 * 4);
}

TEST_CASE("a sweep has a row for every known schedule") {
  std::set<std::string> names;
  for (const SweepVariant& variant : sweep_requests(4, 8)) {
    CHECK(!variant.requests.empty());
    for (const Request& r : variant.requests) {
      CHECK(refusal(r).empty());
      names.insert(r.schedule);
    }
  }
  for (const ScheduleInfo& info : known_schedules()) CHECK(names.contains(info.name));
}

TEST_CASE("a sweep meets every kind of step") {
  for (const SweepVariant& variant : sweep_requests(32, 64)) {
    std::set<std::tuple<std::string, bool, int, int, bool>> kinds;
    for (const Request& r : variant.requests)
      kinds.insert({r.gradient_sync, r.tied, r.width, r.zero_stage, r.recompute});
    CAPTURE(variant.name);
    // Three ways to reduce and two each of the rest; no sharding where versions are stale or steps
    // overlap, no tying under pipedream; overlapping steps are tied or recomputed at small sizes.
    const bool stale = variant.name.starts_with("pipedream"),
               overlap = variant.name == "chimera overlap";
    const std::size_t all = variant.name == "pipedream" ? 12 : stale ? 24 : 48;
    if (overlap)
      CHECK(kinds.size() >= 12);
    else
      CHECK(kinds.size() == all);
  }
}

}  // namespace
}  // namespace chimera::schedule
