#pragma once
// How a job that fails ended.
#include <chrono>
#include <string>

#include "support/support.h"

namespace chimera::test {

struct Outcome {
  std::string message;
  int exit_code = 0;
  double seconds = 0;
};

template <class Run>
Outcome timed(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome;
  run(outcome);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

// The waits of most scenarios last 60 s: what ends in half of that was ended by the failure.
constexpr double kSoon = 30;

inline void check_outcome(const Outcome& outcome, const std::string& message, int exit_code) {
  INFO(outcome.message);
  CHECK_THAT(outcome.message, Catch::Matchers::Contains(message));
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.seconds < kSoon);
}

}  // namespace chimera::test
