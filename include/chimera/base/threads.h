#pragma once
// A worker's team is its thread's OpenMP team: oneDNN links libgomp, and a second kind of team
// would oversubscribe the cores. Teams wait passively; see `ensure_passive_waiting`.
#include "chimera/base/types.h"

namespace chimera {

// Cores this process may use (its affinity mask), at least 1.
int available_cores();

// Sets the size of the calling thread's team.
void set_team_size(int threads);
int team_size();

// Calls body(begin, end) on disjoint ranges that cover [0, n), one per thread of the calling
// thread's team; ranges begin at multiples of `grain`, so the split depends on n, grain and the
// team size alone. An exception in a range is rethrown here. Serial when n <= grain or the team
// is 1.
template <class Body>
void parallel_for(Index n, Index grain, const Body& body);

// libgomp reads OMP_WAIT_POLICY when it is loaded: when it is unset, sets it to passive and
// executes the program again, once. Call it first in main. (A spinning team makes an oversubscribed
// node crawl.)
void ensure_passive_waiting(char** argv);

namespace detail {
void run_team(Index chunks, void (*body)(void*, Index chunk), void* context);
}

template <class Body>
void parallel_for(Index n, Index grain, const Body& body) {
  if (n <= 0) return;
  const Index team = team_size();
  if (team == 1 || n <= grain) return body(Index{0}, n);
  const Index units = ceil_div(n, grain);
  const Index chunks = units < team ? units : team;
  struct Context {
    const Body& body;
    Index n, grain, units, chunks;
  } context{body, n, grain, units, chunks};
  detail::run_team(
      chunks,
      [](void* raw, Index chunk) {
        const Context& c = *static_cast<Context*>(raw);
        const Index begin = c.units * chunk / c.chunks * c.grain;
        const Index end = c.units * (chunk + 1) / c.chunks * c.grain;
        if (begin < c.n) c.body(begin, end < c.n ? end : c.n);
      },
      &context);
}

}  // namespace chimera
