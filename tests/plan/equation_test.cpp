#include "chimera/plan/equation.h"

#include "support/support.h"

namespace chimera::plan {
namespace {

using schedule::ComputePlan;

ComputePlan plan_of(const std::string& name, int D, int N, int f = 1) {
  schedule::Request r;
  r.schedule = name;
  r.depth = D;
  r.micro_batches = N;
  r.pipeline_pairs = f;
  return schedule::generate(r);
}

std::vector<StageSeconds> stages(int D, double forward, double backward) {
  return std::vector<StageSeconds>(static_cast<std::size_t>(D),
                                   {forward, backward / 2, backward / 2, 0});
}

}  // namespace

TEST_CASE("Eq. 1: C_f and C_b of the paper are counted on the schedule") {
  // The paper's example, section 3.4: D = N = 6 has 6 forwards and 10 backwards on its longest
  // chain.
  const CriticalPath six = critical_path(plan_of("chimera", 6, 6), stages(6, 1, 2));
  CHECK(six.forwards == 6);
  CHECK(six.backwards == 10);
  // In general D and 2D - 2; K units by direct concatenation: D + 2(K - 1) and K(2D - 2).
  for (const int D : {4, 8, 16, 32})
    for (const int K : {1, 2, 3}) {
      const CriticalPath path = critical_path(plan_of("chimera", D, K * D), stages(D, 1, 2));
      CHECK(path.seconds == Approx(D + 2 * (K - 1) + 2 * K * (2 * D - 2)));
      CHECK(path.backwards == K * (2 * D - 2));
      CHECK(path.forwards == D + 2 * (K - 1));
    }
  // f pairs at N = D: C_f = D, C_b = D + D/f - 2.
  const CriticalPath pairs = critical_path(plan_of("chimera", 8, 8, 2), stages(8, 1, 2));
  CHECK(pairs.forwards == 8);
  CHECK(pairs.backwards == 10);
}

TEST_CASE("Eq. 1: the longest chain of 1F1B is N + D - 1 of each") {
  const CriticalPath path = critical_path(plan_of("1f1b", 8, 24), stages(8, 1, 2));
  CHECK(path.seconds == Approx((24 + 8 - 1) * 3));
  CHECK(path.forwards == 31);
  CHECK(path.backwards == 31);
}

TEST_CASE("Eq. 1: no worker is faster than its own computations") {
  // Stage 2 of 4 takes double: 8 micro-batches of 2 + 4.
  std::vector<StageSeconds> uneven = stages(4, 1, 2);
  uneven[2] = {2, 2, 2, 0};
  const ComputePlan plan = plan_of("1f1b", 4, 8);
  CHECK(busiest_worker(plan, uneven) == Approx(8 * 6));
  CHECK(critical_path(plan, uneven).seconds >= 8 * 6);
}

TEST_CASE("Eq. 1: messages count on the chain, reductions where nothing hides them") {
  const ComputePlan plan = plan_of("chimera", 4, 4);
  const std::vector<StageSeconds> equal = stages(4, 1, 2);
  const Equation1 free = equation1(plan, equal, 0, {0, 0, 0, 0}, true);
  CHECK(free.seconds() == Approx(16));  // the paper's Fig. 3
  // 4 + 6 computations on the chain, 0.25 each.
  CHECK(equation1(plan, equal, 0.25, {0, 0, 0, 0}, true).seconds() == Approx(16 + 10 * 0.25));
  // The last backward of stage 3 ends at slot 16 on worker 0 and at 14 on worker 3, so of eager
  // reductions only stage 3's first half a slot ends before the step does on both; at the end, a
  // worker has two to do.
  const CriticalPath path = critical_path(plan, equal);
  CHECK(unoverlapped_reductions(plan, path, {0, 0, 0, 0.5}, true) == Approx(0).margin(1e-12));
  CHECK(unoverlapped_reductions(plan, path, {0.5, 0.5, 0.5, 0.5}, false) >= 1.0 - 1e-12);
  CHECK(unoverlapped_reductions(plan, path, {3, 3, 3, 3}, true) <=
        unoverlapped_reductions(plan, path, {3, 3, 3, 3}, false));
}

}  // namespace chimera::plan
