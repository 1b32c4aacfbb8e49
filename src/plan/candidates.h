#pragma once
// What the search looks at: requests that make sense, and what is known of them before lowering.
#include <map>
#include <memory>

#include "chimera/plan/equation.h"
#include "chimera/plan/search.h"

namespace chimera::plan {

// Counts refusals by kind and keeps the first example, or a better one.
class Refusals {
 public:
  void add(const std::string& kind, const std::string& example, bool better = false);
  std::vector<Refusal> list() const;

 private:
  std::map<std::string, Refusal> kinds_;
};

// Candidates whose order of computations is the same: they differ in recomputation, ZeRO and W * B
// alone.
struct Family {
  schedule::Request request;  // of the first
  std::vector<Ranked> members;
  std::shared_ptr<const schedule::ComputePlan> plan;  // once made, where it is kept
};

std::vector<Family> families(const SearchRequest& request, Refusals& refusals);

// Whether some computation uses weights that are updates behind.
bool is_stale(const schedule::ComputePlan& plan);

// Most blocks of micro-batches between Forward and the end of Backward, per worker; blocks are of
// the plan's largest count. Exact for overlapping steps, too.
std::vector<int> peak_in_flight(const schedule::ComputePlan& plan);

// A schedule with the computations, placement, groups and least pools of `plan`, and no messages:
// its footprint is at most that of the lowered schedule.
schedule::Schedule sketch(const schedule::ComputePlan& plan, const schedule::Request& request);

// What is known of one layout: shape, stages, seconds.
struct Sized {
  Shape shape;
  schedule::Schedule least;  // its sketch
  std::vector<StageBytes> stages;
  std::vector<StageSeconds> seconds;
};
Shape shape_of(const SearchRequest& request, const Candidate& candidate);
Sized size_up(const SearchRequest& request, const Candidate& candidate,
              const schedule::ComputePlan& plan);

// Seconds that no run can beat: the longest chain with its messages, then the reduction that ends
// last, then the updates; of overlapping steps: the busiest worker.
double lower_bound_of(const SearchRequest& request, const schedule::ComputePlan& plan,
                      const Sized& layout);
// Eq. 1; 0 for overlapping steps.
double equation_of(const SearchRequest& request, const schedule::ComputePlan& plan,
                   const Sized& layout);

}  // namespace chimera::plan
