#include "machines.h"

#include "chimera/base/threads.h"
#include "kernel_support.h"

namespace chimera::test {

// The words of cpu_isa_report before " (".
std::vector<std::string> machine_isas() {
  const std::string report = cpu_isa_report();
  std::vector<std::string> out;
  std::string word;
  for (const char c : report.substr(0, report.find(" (")) + ",") {
    if (c == ',')
      out.push_back(std::exchange(word, ""));
    else if (c != ' ')
      word += c;
  }
  return out;
}

// Every instruction set with teams of 1, 2 and 3.
void on_every_machine(const std::function<void(Ops&)>& body) {
  const int before = team_size();
  for (const std::string& isa : machine_isas())
    for (const int team : {1, 2, 3}) {
      INFO("isa " << isa << ", team of " << team);
      set_team_size(team);
      const auto ops = make_cpu_ops(isa);
      body(*ops);
    }
  set_team_size(before);
}

std::unique_ptr<Ops> test_ops() { return make_cpu_ops(); }

}  // namespace chimera::test
