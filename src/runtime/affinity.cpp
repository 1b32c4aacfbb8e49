#include "chimera/runtime/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>

namespace chimera {

std::optional<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc() && value >= 0 && value < CPU_SETSIZE;
  };
  while (at != end) {
    int first = 0, last = 0;
    if (!number(first)) return std::nullopt;
    last = first;
    if (at != end && *at == '-' && (++at, !number(last) || last < first)) return std::nullopt;
    for (int cpu = first; cpu <= last; ++cpu) out.push_back(cpu);
    if (at != end && *at++ != ',') return std::nullopt;
  }
  return out;
}

bool pin_near(const std::string& bus, const Path& pci_devices) {
  std::string name = bus;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream file(pci_devices / name / "local_cpulist");
  std::string text;
  if (!std::getline(file, text)) return false;
  const auto near = parse_cpu_list(text);
  cpu_set_t now;
  CPU_ZERO(&now);
  if (!near || sched_getaffinity(0, sizeof now, &now) != 0) return false;
  if (CPU_COUNT(&now) < sysconf(_SC_NPROCESSORS_ONLN)) return false;  // bound by the launcher
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int cpu : *near)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &now))
      CPU_SET(static_cast<std::size_t>(cpu), &wanted);
  return CPU_COUNT(&wanted) > 0 && CPU_COUNT(&wanted) < CPU_COUNT(&now) &&
         sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

}  // namespace chimera
