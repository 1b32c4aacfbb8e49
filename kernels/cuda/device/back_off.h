#pragma once
// Waiting for a GPU without spinning: sleeps from 5 to 200 us.
#include <algorithm>
#include <chrono>
#include <thread>

namespace chimera {

class BackOff {
 public:
  void pause() {
    std::this_thread::sleep_for(std::chrono::microseconds(sleep_));
    sleep_ = std::min(sleep_ * 3 / 2, kLongest);
  }

 private:
  static constexpr int kLongest = 200;
  int sleep_ = 5;
};

// How long a wait has lasted. Looks follow each other fast: a longer break means that this process
// was stopped (Ctrl-Z), and counts for little.
class Patience {
 public:
  // Seconds so far.
  double waited() {
    const auto now = std::chrono::steady_clock::now();
    waited_ += std::min(0.25, std::chrono::duration<double>(now - last_).count());
    last_ = now;
    return waited_;
  }

 private:
  double waited_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace chimera
