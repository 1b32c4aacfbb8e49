// Workers are pinned to the CPU cores nearest their GPU, and nowhere where the launcher has
// decided.
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "chimera/runtime/affinity.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) out.push_back(cpu);
  return out;
}

}  // namespace

TEST_CASE("affinity: lists of cores as the kernel writes them") {
  CHECK(parse_cpu_list("0-3,8,10-11") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_cpu_list("7") == std::vector<int>{7});
  CHECK(parse_cpu_list("") == std::vector<int>{});
  for (const char* bad : {"x", "3-1", "1-", "-1", "1;2", "1,,2", "99999999999", "5000"}) {
    INFO(bad);
    CHECK_FALSE(parse_cpu_list(bad).has_value());
  }
}

TEST_CASE("affinity: a thread moves only to a part of what it may use") {
  const TemporaryFolder folder;
  const Path devices = folder.path();
  const auto say = [&](const std::string& text) {
    std::filesystem::create_directories(devices / "0000:1b:00.0");
    std::ofstream(devices / "0000:1b:00.0" / "local_cpulist") << text << "\n";
  };
  const std::vector<int> before = cores_of_this_thread();
  std::vector<int> after;
  bool pinned = true;
  const auto bind = [&] {  // in a thread of its own: this one stays where it is
    std::thread([&] {
      pinned = pin_near("0000:1B:00.0", devices);
      after = cores_of_this_thread();
    }).join();
  };
  bind();  // no such device
  CHECK_FALSE(pinned);
  CHECK(after == before);
  say("not a list");
  bind();
  CHECK_FALSE(pinned);
  say(std::to_string(before.front()));
  bind();
  const bool free_to_move =
      before.size() > 1 && static_cast<long>(before.size()) >= sysconf(_SC_NPROCESSORS_ONLN);
  CHECK(pinned == free_to_move);
  CHECK(after == (free_to_move ? std::vector<int>{before.front()} : before));
}
