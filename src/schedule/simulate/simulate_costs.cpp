// Costs: checked, and as a file.
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "chimera/base/json_reader.h"
#include "chimera/schedule/simulate.h"

namespace chimera::schedule {
namespace {

constexpr JsonFormat kFormat{
    "chimera-costs", 2,
    "a costs file begins with {\"format\": \"chimera-costs\", \"version\": 2, …}", "costs"};

constexpr double kMostCost = 1e18;  // seconds, bytes, seconds per byte

struct ListKey {
  const char* key;
  std::vector<double> Costs::*list;
};
const std::array<ListKey, 6> kLists = {{{"forward", &Costs::forward},
                                        {"backward_input", &Costs::backward_input},
                                        {"backward_weight", &Costs::backward_weight},
                                        {"recompute", &Costs::recompute},
                                        {"update", &Costs::update},
                                        {"gradient_bytes", &Costs::gradient_bytes}}};
struct LinkKey {
  const char* key;
  LinkCost Costs::*link;
};
constexpr std::array<LinkKey, 4> kLinks = {
    {{"inter_node", &Costs::inter_node},
     {"intra_node", &Costs::intra_node},
     {"reduction_inter_node", &Costs::reduction_inter_node},
     {"reduction_intra_node", &Costs::reduction_intra_node}}};
struct NumberKey {
  const char* key;
  double Costs::*number;
};
constexpr std::array<NumberKey, 3> kNumbers = {{{"message_bytes", &Costs::message_bytes},
                                                {"contention", &Costs::contention},
                                                {"step_sync", &Costs::step_sync}}};
struct FlagKey {
  const char* key;
  bool Costs::*flag;
};
constexpr std::array<FlagKey, 3> kFlags = {{{"rendezvous", &Costs::rendezvous},
                                            {"blocking_sends", &Costs::blocking_sends},
                                            {"reductions_inline", &Costs::reductions_inline}}};

void check_amount(const std::string& key, double value) {
  if (!std::isfinite(value) || value < 0)
    FailUsage("cost ", key, " is ", value, "; it must be finite and not negative");
  if (value > kMostCost)
    FailUsage("cost ", key, " is ", value, "; it must be at most ", kMostCost,
              ", so that sums stay finite");
}

}  // namespace

void check_costs(const Costs& costs, const Schedule& schedule) {
  const std::size_t stages = static_cast<std::size_t>(schedule.stages());
  for (const ListKey& k : kLists) {
    const std::vector<double>& list = costs.*k.list;
    const bool per_group = k.list == &Costs::update || k.list == &Costs::gradient_bytes;
    const bool may_be_empty = k.list == &Costs::recompute;
    if (list.size() != 1 && list.size() != stages && !(list.empty() && may_be_empty) &&
        !(per_group && list.size() == schedule.groups.size()))
      FailUsage("cost ", k.key, " has ", list.size(), " numbers; the schedule has ", stages,
                " stages: give one number each, or one for all");
    for (const double value : list) check_amount(k.key, value);
  }
  for (const NumberKey& k : kNumbers) check_amount(k.key, costs.*k.number);
  for (const LinkKey& k : kLinks) {
    check_amount(concat(k.key, ".latency"), (costs.*k.link).latency);
    check_amount(concat(k.key, ".seconds_per_byte"), (costs.*k.link).seconds_per_byte);
  }
  if (costs.contention >= 1)
    FailUsage("cost contention is ", costs.contention,
              "; it is the share of a worker's speed that a reduction takes: 0 to below 1");
  if (costs.workers_per_node < 0)
    FailUsage("cost workers_per_node is ", costs.workers_per_node, "; it must be 0 or more");
}

Costs read_costs(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name, JsonComments::Allow);
  const JsonReader r = open_format(json, name, kFormat);
  r.only({}, {"format", "version", "forward", "backward_input", "backward_weight", "recompute",
              "update", "message_bytes", "gradient_bytes", "workers_per_node", "inter_node",
              "intra_node", "reduction_inter_node", "reduction_intra_node", "rendezvous",
              "blocking_sends", "reductions_inline", "contention", "step_sync"});
  Costs costs;
  const auto amounts = [](const JsonReader& value) {
    if (!value.is_list()) return std::vector<double>{value.number()};
    std::vector<double> out;
    for (const JsonReader& entry : value.list()) out.push_back(entry.number());
    return out;
  };
  if (r.has("forward")) costs.backward_input = costs.backward_weight = amounts(r["forward"]);
  for (const ListKey& k : kLists)
    if (r.has(k.key)) costs.*k.list = amounts(r[k.key]);
  for (const NumberKey& k : kNumbers)
    if (r.has(k.key)) costs.*k.number = r[k.key].number();
  for (const FlagKey& k : kFlags)
    if (r.has(k.key)) costs.*k.flag = r[k.key].flag();
  for (const LinkKey& k : kLinks) {
    if (!r.has(k.key)) continue;
    const JsonReader link = r[k.key];
    link.only({"latency", "seconds_per_byte"});
    costs.*k.link = {link["latency"].number(), link["seconds_per_byte"].number()};
  }
  if (r.has("workers_per_node"))
    costs.workers_per_node = static_cast<int>(r["workers_per_node"].count(
        std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
  return costs;
}

std::string write_costs(const Costs& costs) {
  Json out;
  out["format"] = kFormat.name;
  out["version"] = kFormat.version;
  for (const ListKey& k : kLists)
    if (!(costs.*k.list).empty()) out[k.key] = costs.*k.list;
  for (const NumberKey& k : kNumbers) out[k.key] = costs.*k.number;
  for (const FlagKey& k : kFlags) out[k.key] = costs.*k.flag;
  out["workers_per_node"] = costs.workers_per_node;
  for (const LinkKey& k : kLinks)
    out[k.key] = {{"latency", (costs.*k.link).latency},
                  {"seconds_per_byte", (costs.*k.link).seconds_per_byte}};
  return out.dump(1) + "\n";
}

}  // namespace chimera::schedule
