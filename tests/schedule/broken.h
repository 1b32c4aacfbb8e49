#pragma once
// Proved schedules, damaged: the verifier must refuse each at the instruction at fault, with the
// reason.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "chimera/schedule/build.h"
#include "support/support.h"

namespace chimera::schedule::broken {

using Body = std::vector<Instr>;

inline Schedule good() { return build_schedule({.depth = 4, .micro_batches = 4, .tied = true}); }

inline Body& body(Schedule& s, int worker) {
  return s.programs[static_cast<std::size_t>(worker)].body;
}

// The first instruction of the worker that prints like this, less its tick.
inline std::size_t index_of(Schedule& s, int worker, const std::string& text) {
  const Body& list = body(s, worker);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string line = to_string(list[i]);
    if (line.substr(line.find(' ') + 1).starts_with(text)) return i;
  }
  FAIL("worker " << worker << " has no '" << text << "'");
  return 0;
}
inline Instr& find(Schedule& s, int worker, const std::string& text) {
  return body(s, worker)[index_of(s, worker, text)];
}

inline void insert_before(Schedule& s, int worker, const std::string& text,
                          const std::string& before) {
  Body& list = body(s, worker);
  const auto place = static_cast<std::ptrdiff_t>(index_of(s, worker, before));
  list.insert(list.begin() + place, parse_instr("t00 " + text));
}
inline void append(Schedule& s, int worker, const std::string& text) {
  body(s, worker).push_back(parse_instr("t99 " + text));
}
inline void erase(Schedule& s, int worker, const std::string& text) {
  Body& list = body(s, worker);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(index_of(s, worker, text)));
}
inline void twice(Schedule& s, int worker, const std::string& text) {
  const Instr again = find(s, worker, text);
  Body& list = body(s, worker);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(index_of(s, worker, text)), again);
}
inline void swap(Schedule& s, int worker, const std::string& a, const std::string& b) {
  std::swap(find(s, worker, a), find(s, worker, b));
}
inline void move_before(Schedule& s, int worker, const std::string& what,
                        const std::string& before) {
  const Instr moved = find(s, worker, what);
  erase(s, worker, what);
  Body& list = body(s, worker);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(index_of(s, worker, before)), moved);
}

// `whole` is proved; after `damage` it is refused with a message that has all the pieces.
inline void refused(const Schedule& whole, const std::function<void(Schedule&)>& damage,
                    const std::vector<std::string>& pieces) {
  REQUIRE_NOTHROW(verify(whole));
  Schedule s = whole;
  damage(s);
  try {
    verify(s);
    FAIL_CHECK("accepted; expected: " << pieces.front());
  } catch (const Error& error) {
    CAPTURE(error.what());
    for (const std::string& piece : pieces)
      CHECK_THAT(std::string(error.what()), Catch::Contains(piece));
  }
}

}  // namespace chimera::schedule::broken
