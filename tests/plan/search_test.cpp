#include "chimera/plan/search.h"

#include <algorithm>

#include "chimera/schedule/build.h"
#include "support/support.h"

namespace chimera::plan {
namespace {

// Devices of 1 TFLOP/s without latency: time is computation alone.
Cluster free_messages() {
  Cluster c;
  c.name = "toy";
  c.peak_flops = 1e12;
  c.memory_bytes = 1e12;
  c.memory_bandwidth = 1e15;
  c.inter_node = c.intra_node = c.reduction_inter_node = c.reduction_intra_node = {0, 1e14};
  return c;
}

SearchRequest small(Index workers, Index batch) {
  SearchRequest r;
  r.model.n_layer = 8, r.model.n_head = 4, r.model.n_embd = 256, r.model.n_positions = 128;
  r.model.vocab_size = 512;
  r.model.tied_embeddings = false;
  r.cluster = free_messages();
  r.workers = workers, r.batch = batch, r.T = 128;
  r.times = [model = r.model, cluster = r.cluster, T = r.T](Index B) {
    return estimated_times(cluster, model, B, T);
  };
  return r;
}

}  // namespace

TEST_CASE("estimated times in 16 bits: products at their own rate, half the bytes for the rest") {
  const SearchRequest r = small(1, 1);
  Cluster c = r.cluster;
  c.memory_bandwidth = 1e12;
  const PieceTimes wide = estimated_times(c, r.model, 2, r.T),
                   unknown = estimated_times(c, r.model, 2, r.T, DType::BF16);
  CHECK(unknown.block_forward == wide.block_forward);  // no rate of such products is known
  CHECK(unknown.embedding_forward == Approx(wide.embedding_forward / 2));
  CHECK(unknown.optimizer == Approx(wide.optimizer * 30 / 28));  // fp32 state and a 16-bit weight
  c.peak_flops_16bit = 8 * c.peak_flops;
  c.achieved_fraction_16bit = 0.5;
  const PieceTimes narrow = estimated_times(c, r.model, 2, r.T, DType::BF16);
  CHECK(narrow.block_forward == Approx(wide.block_forward / 4));
  CHECK(narrow.embedding_forward == unknown.embedding_forward);
}

TEST_CASE("search: in 16 bits larger micro-batches fit, beside more state") {
  SearchRequest r = small(1, 4);
  // State is 16 bytes per parameter, 105 MB; in 16 bits 18 bytes, 118 MB. A sample's activations
  // are 17 MB, or half of it: two samples against four.
  r.memory = 160'000'000;
  r.recompute = {"none"};
  const auto most = [&](DType type) {
    r.type = type;
    const SearchResult result = search(r);
    Index B = 0;
    for (const Ranked& ranked : result.ranked) B = std::max(B, ranked.candidate.samples);
    return B;
  };
  const Index wide = most(DType::F32), narrow = most(DType::BF16);
  CHECK(wide == 2);
  CHECK(narrow == 4);
}

TEST_CASE("search: with free messages and reductions, plain data parallelism has no bubble") {
  SearchRequest r = small(4, 16);
  r.schedules = {"gpipe", "1f1b"};  // Chimera of two stages has no bubble, either
  r.recompute = {"none"};
  const SearchResult result = search(r);
  REQUIRE_FALSE(result.ranked.empty());
  const Ranked& best = result.ranked.front();
  CHECK(best.candidate.request.depth == 1);
  CHECK(best.candidate.request.width == 4);
  CHECK(best.bubble < 0.01);
  CHECK(result.ranked.size() <= r.top);
  CHECK_FALSE(result.limited);
}

TEST_CASE(
    "search: what does not fit is refused with the bytes, and depth or recomputation remain") {
  SearchRequest r = small(4, 16);
  // One layer's state on each of 4 workers fits (16 bytes per parameter: 25 MB), the whole model's
  // (105 MB) does not.
  r.memory = 60'000'000;
  const SearchResult result = search(r);
  REQUIRE_FALSE(result.ranked.empty());
  for (const Ranked& ranked : result.ranked) {
    CHECK(ranked.candidate.request.depth >= 2);
    CHECK(ranked.most_memory <= r.memory);
    CHECK(ranked.least_memory <= ranked.most_memory);
  }
  const auto memory = std::ranges::find(result.refusals, "too much memory", &Refusal::kind);
  REQUIRE(memory != result.refusals.end());
  CHECK(memory->count > 0);
  CHECK_THAT(memory->example, Catch::Contains("needs") && Catch::Contains("of 57.22 MiB"));
  r.memory = 1'000'000;
  CHECK(search(r).ranked.empty());
}

TEST_CASE("search: no result beats its bound, and simulating everything finds nothing better") {
  SearchRequest r = small(8, 16);
  r.cluster.inter_node = r.cluster.reduction_inter_node = {5e-6, 1e9};
  r.zero_stages = {0, 1};
  r.top = 5;
  const SearchResult few = search(r);
  r.top = 100000;
  const SearchResult all = search(r);
  REQUIRE(few.ranked.size() == 5);
  CHECK(few.simulated < all.simulated);
  CHECK(all.candidates == all.simulated);
  for (std::size_t i = 0; i < few.ranked.size(); ++i)
    CHECK(few.ranked[i].seconds == all.ranked[i].seconds);
  for (const Ranked& ranked : all.ranked) {
    INFO(describe(ranked.candidate));
    CHECK(ranked.bound <= ranked.seconds * (1 + 1e-9));
  }
}

// So the least memory, known before lowering, is never more than what is needed.
TEST_CASE("search: a limit of exactly what a layout needs keeps it; one byte less refuses it") {
  SearchRequest r = small(4, 8);
  r.top = 1000;
  r.schedules = {"1f1b", "gems", "chimera"};
  const std::vector<Ranked> all = search(r).ranked;
  REQUIRE(all.size() > 30);
  for (std::size_t i = 0; i < all.size(); i += 13) {
    const std::string name = describe(all[i].candidate);
    const auto found = [&](Index memory) {
      r.memory = memory;
      const std::vector<Ranked> ranked = search(r).ranked;
      return std::ranges::any_of(ranked,
                                 [&](const Ranked& x) { return describe(x.candidate) == name; });
    };
    INFO(name);
    CHECK(found(all[i].most_memory));
    CHECK_FALSE(found(all[i].most_memory - 1));
  }
}

TEST_CASE("search: faster links and more memory never make the best layout slower") {
  SearchRequest r = small(8, 32);
  double slower = 1e9;
  for (const double bandwidth : {1e8, 1e9, 1e10, 1e12}) {
    r.cluster.inter_node = r.cluster.reduction_inter_node = {1e-6, bandwidth};
    const double best = search(r).ranked.front().seconds;
    CHECK(best <= slower);
    slower = best;
  }
  double tighter = 1e9;
  for (const Index memory : {Index{40} << 20, Index{80} << 20, Index{4} << 30}) {
    r.memory = memory;
    const SearchResult found = search(r);
    if (found.ranked.empty()) continue;
    CHECK(found.ranked.front().seconds <= tighter);
    tighter = found.ranked.front().seconds;
  }
  CHECK(tighter < 1e9);
}

TEST_CASE("search: N, B and W make up the batch, and layers the model") {
  SearchRequest r = small(8, 24);
  r.top = 1000;
  for (const Ranked& ranked : search(r).ranked) {
    const Candidate& c = ranked.candidate;
    INFO(describe(c));
    CHECK(c.samples * c.request.micro_batches * c.request.width == 24);
    CHECK(c.request.depth * c.request.width == 8);
    Index layers = 0;
    for (const Index n : c.layers) layers += n;
    CHECK(layers == 8);
  }
}

TEST_CASE("search: old weights only where they are asked for") {
  SearchRequest r = small(4, 8);
  r.top = 1000;
  r.schedules = {"pipedream-2bw"};
  const SearchResult none = search(r);
  CHECK(none.ranked.empty());
  REQUIRE(none.refusals.size() == 1);
  CHECK_THAT(none.refusals.front().example, Catch::Contains("pipedream-2bw"));
  r.stale = true;
  const SearchResult some = search(r);
  REQUIRE_FALSE(some.ranked.empty());
  CHECK(std::ranges::any_of(some.ranked, &Ranked::stale));
  r.schedules = {"no-such"};
  CHECK_THROWS_WITH(search(r), Catch::Contains("'no-such' is unknown"));
}

TEST_CASE("search: requests without sense are refused") {
  SearchRequest r = small(0, 8);
  CHECK_THROWS_WITH(search(r), Catch::Contains("workers is 0"));
  r = small(4, 8);
  r.T = 129;
  CHECK_THROWS_WITH(search(r), Catch::Contains("128 positions"));
  r = small(4, 8);
  r.cluster.nodes = 1;
  r.cluster.devices_per_node = 2;
  CHECK_THROWS_WITH(search(r), Catch::Contains("toy has 2 devices"));
  r = small(3, 8);  // 3 replicas do not divide 8; a depth of 3 does
  for (const Ranked& ranked : search(r).ranked) CHECK(ranked.candidate.request.depth == 3);
}

}  // namespace chimera::plan
