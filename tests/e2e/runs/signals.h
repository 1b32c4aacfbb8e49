#pragma once
// Signals to the real program, and its continuation.
#include <string>
#include <vector>

namespace chimera::test {

struct Sent {
  std::string signal;  // TERM, KILL, ...
  std::string to;      // a rank, or "launcher": what was started
  int code;            // expected; -1: any but 0
};
// For each: starts a long run under `launcher` (empty: threads), sends the signal once the first
// checkpoint is written, continues with the same command and compares with a run left alone.
void check_signals(const std::vector<Sent>& sent, const std::string& launcher);

}  // namespace chimera::test
