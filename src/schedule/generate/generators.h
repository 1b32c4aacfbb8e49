#pragma once
// What generators share. `generate` has checked the request.
#include "chimera/base/check.h"
#include "chimera/base/types.h"
#include "chimera/schedule/generate.h"

namespace chimera::schedule {

// Of a request whose member `key` has a value that it cannot have; the message is "KEY is PARTS".
struct Refused : UsageError {
  Refused(const char* member, const std::string& text) : UsageError(text), key(member) {}
  std::string key;
};
template <class... Parts>
[[noreturn]] void refuse(const char* key, const Parts&... parts) {
  throw Refused(key, concat(key, " is ", parts...));
}

// Bounds what a typing error can allocate; D = 32 allows 8,192 micro-batches per step.
inline constexpr Index kMostDepth = 1024, kMostCells = Index{1} << 18,
                       kMostWorkers = Index{1} << 24;

// The rows of all files of schedules/, in no order: the build writes this function.
std::vector<ScheduleInfo> schedule_rows();

// Schedules that others begin from. `steady`: step after step, one every 2N ticks.
ComputePlan one_f_one_b(int D, int N);
ComputePlan steady_one_f_one_b(const char* name, int D, int N);
ComputePlan chimera_direct(int D, int N, int f);

// For messages: the multiple of `of` that is nearest to n and above 0.
int nearest_multiple(int n, int of);

// Down pipe i of f: stage s on worker (i D/f + s) mod D; up pipe f + i is its mirror image.
std::vector<std::vector<int>> place_bidirectional(int D, int f);
// How many of n <= D micro-batches pipe p of 2f gets: as even as can be, the surplus to down0, up0,
// down1, up1, …
int share_of_pipe(int n, int pipe, int f);

// An empty plan with its workers; `one_way` places stage s on worker s.
ComputePlan empty_plan(const char* name, int D, int N);
std::vector<int> one_way(int D);

// Adds one computation on the worker that hosts the stage.
void add(ComputePlan& plan, int tick, Op op, int pipe, int stage, int micro, int count = 1);
// Sorts each worker's list by tick.
ComputePlan sorted(ComputePlan plan);
// For generators that know each worker's order alone: takes the lists as they stand, whole forwards
// and backwards of one micro-batch, and gives each computation the first tick after its worker's
// last one and its inputs. Throws where the orders wait for each other.
ComputePlan with_ticks(ComputePlan plan);

}  // namespace chimera::schedule
