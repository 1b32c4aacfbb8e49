#include "chimera/base/threads.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <exception>

namespace chimera {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

void set_team_size(int threads) {
  ENSURE(threads >= 1, "a team has at least 1 thread, not ", threads);
  omp_set_num_threads(threads);
}

int team_size() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

namespace detail {

void run_team(Index chunks, void (*body)(void*, Index chunk), void* context) {
  std::exception_ptr error;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(chunks))
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    try {
      body(context, chunk);
    } catch (...) {
#pragma omp critical(chimera_team_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace detail

void ensure_passive_waiting(char** argv) {
  if (getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  // A moment of spinning (microseconds) before a thread sleeps: regions follow each other closely.
  setenv("GOMP_SPINCOUNT", "30000", 0);
  // By its path, not by /proc/self/exe: that would be the process's name in ps and pkill.
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;  // /proc is missing: waiting stays active
  path[length] = '\0';
  execv(path, argv);
}

}  // namespace chimera
