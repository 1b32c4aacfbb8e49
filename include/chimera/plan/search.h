#pragma once
// Which layout to use: every schedule x (W, D, f, scaling, B, N) x recomputation x ZeRO, ranked by
// simulated time, with the memory of each and the reason for every refusal.
#include <functional>
#include <string>
#include <vector>

#include "chimera/plan/costs.h"
#include "chimera/schedule/generate.h"

namespace chimera::plan {

// One layout. `request` holds W, D, N, f, scaling, v, ZeRO and the rest.
struct Candidate {
  schedule::Request request;
  std::string recompute = "none";
  Index samples = 1;          // B
  std::vector<Index> layers;  // per stage, balanced by the times
};

struct SearchRequest {
  model::ModelConfig model;
  Cluster cluster;
  std::function<PieceTimes(Index B)> times;  // of micro-batches of B; called by several threads
  bool measured = false;  // the run will have a calibration: searched schedules follow its times
  Index workers = 1, batch = 1, T = 0;  // P, B * N * W, tokens of a sample
  Index memory = 0;                     // bytes of a worker; 0: the cluster's
  DType type = DType::F32;              // of computation
  std::vector<std::string> schedules;   // empty: all known
  std::vector<std::string> recompute = {"none", "selective", "full"};
  std::vector<int> zero_stages = {0, 1};
  bool stale = false;          // also schedules that compute with old weights
  bool overlap_steps = false;  // also without a barrier between steps (searched: slow)
  std::size_t top = 10;        // as many are found exactly
  Index most_simulations = 600;
  // Further reasons to refuse; empty text: none. May be empty.
  std::function<std::string(const Candidate&)> refuse;
};

struct Ranked {
  Candidate candidate;
  double bound = 0;                         // seconds that no run of it can beat
  double equation = 0;                      // Eq. 1; 0 where it says nothing (overlapping steps)
  double seconds = 0;                       // simulated, per step
  double bubble = 0;                        // idle share
  Index most_memory = 0, least_memory = 0;  // over the workers of a replica
  bool stale = false;
};

// Candidates that cannot run, by kind of reason, with one of them as an example.
struct Refusal {
  std::string kind, example;
  Index count = 0;
};

struct SearchResult {
  std::vector<Ranked> ranked;  // ascending seconds, at most `top`
  std::vector<Refusal> refusals;
  Index candidates = 0;  // that passed
  Index simulated = 0;   // the others cannot be faster than the last of `ranked`
  bool limited = false;  // most_simulations ended the search: then some might be
};

// Candidates are simulated in ascending order of `bound` until no bound lies below the last of the
// best `top`: the result is that of simulating all. UsageError when workers, batch or model make no
// sense.
SearchResult search(const SearchRequest& request);

// A table for people, the refusals and what the numbers rest on.
std::string report(const SearchRequest& request, const SearchResult& result);
// "chimera f 1 doubling D 8 W 4 B 2 N 16, recompute full, ZeRO 1".
std::string describe(const Candidate& candidate);

}  // namespace chimera::plan
