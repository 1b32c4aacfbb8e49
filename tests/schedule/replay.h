#pragma once
// A plan played with durations of its own, from nothing but the rules: written for these tests, it
// shares no code with the searches.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "chimera/schedule/generate.h"

namespace chimera::schedule {

struct Replay {
  std::vector<std::string> faults;  // empty: every rule is kept
  double makespan = 0;              // of all steps
  double per_step = 0;              // from step to step, over half the steps, without the last
  int buffers = 0;                  // most micro-batches between forward and last gradient
};

class Player {
 public:
  Player(const ComputePlan& plan, const Request& request, int steps)
      : plan_(plan), request_(request), steps_(steps), last_(plan.stages() - 1) {}

  Replay run() {
    check_ticks();
    place();
    if (out_.faults.empty()) play();
    if (out_.faults.empty()) measure();
    return out_;
  }

 private:
  enum Kind { F, B, W };
  using Key = std::tuple<int, int, int, int, int>;  // step, kind, pipe, stage, micro
  struct Cell {
    int step;
    const Instr* in;
  };

  void fault(const std::string& what) {
    if (out_.faults.size() < 5) out_.faults.push_back(what);
  }

  static int kind(const Instr& in) {
    return in.op == Op::Forward ? F : in.op == Op::BackwardWeight ? W : B;
  }

  double duration(const Instr& in) const {
    const StageTimes& t = request_.times;
    const auto of = [&](const std::vector<double>& v) {
      return v.empty() ? 1.0 : v[static_cast<std::size_t>(in.stage)];
    };
    const double again = request_.recompute ? of(t.forward) : 0;
    const double one = in.op == Op::Forward          ? of(t.forward)
                       : in.op == Op::BackwardInput  ? of(t.input) + again
                       : in.op == Op::BackwardWeight ? of(t.weight)
                                                     : of(t.input) + of(t.weight) + again;
    return one * in.count;
  }

  // Every micro-batch once per stage, on its stage's worker; one computation per tick, also modulo
  // the period; ascending micro-batches.
  void check_ticks() {
    std::map<Key, int> seen;
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
      std::map<int, int> at;
      std::map<std::tuple<int, int, int>, int> newest;
      for (const Instr& in : plan_.workers[w]) {
        if (in.tick < 0) fault("negative tick: " + to_string(in));
        if (at[plan_.period > 0 ? in.tick % plan_.period : in.tick]++ > 0)
          fault("two computations in one tick: " + to_string(in));
        if (plan_.placement[static_cast<std::size_t>(in.pipe)]
                           [static_cast<std::size_t>(in.stage)] != static_cast<int>(w))
          fault("not this worker's stage: " + to_string(in));
        const auto [entry, first] = newest.try_emplace({kind(in), in.pipe, in.stage}, in.micro);
        if (!first && entry->second >= in.micro) fault("descending: " + to_string(in));
        entry->second = in.micro;
        for (int m = in.micro; m < in.micro + in.count; ++m)
          ++seen[{0, kind(in), in.pipe, in.stage, m}], split_ = split_ || kind(in) == W;
      }
    }
    std::map<int, int> stages_of;
    for (const auto& [key, times] : seen) {
      if (times != 1) fault("twice");
      ++stages_of[std::get<4>(key)];
    }
    if (static_cast<int>(stages_of.size()) != plan_.micro_batches) fault("micro-batches missing");
    for (const auto& [micro, count] : stages_of)
      if (count != (split_ ? 3 : 2) * plan_.stages()) fault("stages of a micro-batch missing");
  }

  // Per worker, all steps in the order of their ticks.
  void place() {
    lists_.resize(plan_.workers.size());
    for (std::size_t w = 0; w < lists_.size(); ++w) {
      for (int step = 0; step < steps_; ++step)
        for (const Instr& in : plan_.workers[w]) lists_[w].push_back({step, &in});
      std::ranges::stable_sort(lists_[w], {}, [&](const Cell& c) {
        return std::pair(c.step * span(), 0).first + c.in->tick;
      });
    }
    for (std::size_t w = 0; w < lists_.size(); ++w)
      for (const Instr& in : plan_.workers[w])
        if (kind(in) == (split_ ? W : B)) gradients_[in.stage] += in.count;
  }
  int span() const { return plan_.period > 0 ? plan_.period : 1 << 24; }

  // When everything that `c` uses is there; negative while it is not known yet.
  double ready(const Cell& c) {
    double t = 0;
    const auto need = [&](int k, int stage, int micro, double hop) {
      const auto done = end_.find({c.step, k, c.in->pipe, stage, micro});
      t = done == end_.end() || t < 0 ? -1 : std::max(t, done->second + hop);
    };
    const double hop = request_.times.message;
    for (int m = c.in->micro; m < c.in->micro + c.in->count; ++m) {
      if (kind(*c.in) == F && c.in->stage > 0) need(F, c.in->stage - 1, m, hop);
      if (kind(*c.in) == B) need(F, c.in->stage, m, 0);
      if (kind(*c.in) == B && c.in->stage < last_) need(B, c.in->stage + 1, m, hop);
      if (kind(*c.in) == W) need(B, c.in->stage, m, 0);
    }
    if (kind(*c.in) != F || c.step == 0 || t < 0) return t;
    std::vector<int> updates = {c.in->stage};
    if (request_.tied && (c.in->stage == 0 || c.in->stage == last_)) updates = {0, last_};
    for (int s : updates) {
      const auto& [count, when] = finished_[{c.step - 1, s}];
      if (count < gradients_[s]) return -1;
      t = std::max(t, when + request_.times.update);
    }
    return t;
  }

  void play() {
    std::vector<std::size_t> next(lists_.size(), 0);
    std::vector<double> free(lists_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < lists_.size(); ++w)
        while (next[w] < lists_[w].size()) {
          const Cell& c = lists_[w][next[w]];
          const double t = ready(c);
          if (t < 0) break;
          const double start = std::max(t, free[w]), end = start + duration(*c.in);
          free[w] = end, moved = true, ++next[w];
          finish(c, static_cast<int>(w), start, end);
        }
    }
    for (std::size_t w = 0; w < lists_.size(); ++w)
      if (next[w] < lists_[w].size())
        return fault("waits for ever: " + to_string(*lists_[w][next[w]].in));
  }

  void finish(const Cell& c, int worker, double start, double end) {
    for (int m = c.in->micro; m < c.in->micro + c.in->count; ++m)
      end_[{c.step, kind(*c.in), c.in->pipe, c.in->stage, m}] = end;
    if (kind(*c.in) == F) alive_[worker].push_back({start, c.in->count});
    if (kind(*c.in) != (split_ ? W : B)) return;
    alive_[worker].push_back({end, -c.in->count});
    auto& [count, when] = finished_[{c.step, c.in->stage}];
    count += c.in->count, when = std::max(when, end);
    step_end_[c.step] = std::max(step_end_[c.step], end);
  }

  void measure() {
    for (const auto& [step, end] : step_end_) out_.makespan = std::max(out_.makespan, end);
    // Not the last step: with no successor it ends sooner.
    const int half = steps_ / 2;
    if (half > 0) out_.per_step = (step_end_[steps_ - 2] - step_end_[steps_ - 2 - half]) / half;
    for (auto& [worker, events] : alive_) {
      std::ranges::sort(events);  // at one time buffers become free first
      int now = 0;
      for (const auto& [time, change] : events)
        out_.buffers = std::max(out_.buffers, now += change);
    }
  }

  const ComputePlan& plan_;
  const Request& request_;
  int steps_, last_;
  bool split_ = false;
  std::vector<std::vector<Cell>> lists_;
  std::map<Key, double> end_;
  std::map<std::pair<int, int>, std::pair<int, double>>
      finished_;                  // (step, stage): gradients, time
  std::map<int, int> gradients_;  // per stage and step
  std::map<int, double> step_end_;
  std::map<int, std::vector<std::pair<double, int>>> alive_;
  Replay out_;
};

inline Replay replay(const ComputePlan& plan, const Request& request, int steps = 1) {
  return Player(plan, request, steps).run();
}

}  // namespace chimera::schedule
