#include "chimera/plan/footprint.h"

#include "chimera/plan/costs.h"
#include "chimera/schedule/build.h"
#include "support/support.h"

namespace chimera::plan {
namespace {

// C 64 makes every tensor a multiple of 16 floats, so that alignment adds nothing to sums by hand.
model::ModelConfig small_model(bool tied) {
  model::ModelConfig m;
  m.n_layer = 4, m.n_head = 2, m.n_embd = 64, m.n_positions = 32, m.vocab_size = 128;
  m.tied_embeddings = tied;
  return m;
}

constexpr Index kBlock = 12 * 64 * 64 + 13 * 64, kTable = 128 * 64, kPositions = 32 * 64,
                kNorm = 2 * 64;

schedule::Schedule built(schedule::Request r, bool tied) {
  r.tied = tied;
  return schedule::build_schedule(r);
}

Index item(const WorkerFootprint& footprint, const std::string& name) {
  for (const MemoryItem& i : footprint.items())
    if (i.name == name) return i.bytes;
  return -1;
}

}  // namespace

TEST_CASE("footprint: one worker, untied: weights, gradients and moments are the parameters") {
  const Shape shape{small_model(false), {4}, 2, 16};
  const schedule::Schedule s = built({.schedule = "1f1b", .depth = 1, .micro_batches = 2}, false);
  const WorkerFootprint f = worker_footprint(all_stage_bytes(shape, s), s, nullptr, 0, 0);
  const Index parameters = 4 * kBlock + 2 * kTable + kPositions + kNorm;
  CHECK(parameters == model::parameter_count(shape.model));
  CHECK(item(f, "weights") == 4 * parameters);
  CHECK(item(f, "gradients") == 4 * parameters);
  CHECK(item(f, "Adam moments") == 8 * parameters);
  CHECK(item(f, "reductions") == 0);  // one contribution: nothing to add up
  CHECK(f.activation_buffers == 1);
  CHECK(f.activation_buffer_bytes > 0);
  CHECK(f.bytes() == 16 * parameters + f.activation_buffer_bytes * f.activation_buffers +
                         f.boundary_buffer_bytes * f.boundary_buffers + f.workspace + f.losses);
}

// Weights of two bytes per version, and once the fp32 that they round.
TEST_CASE("footprint: in 16 bits weights, activations and messages halve; the master is added") {
  for (const int zero : {0, 1})
    for (const int versions : {1, 4}) {
      const schedule::Schedule s = built({.schedule = versions > 1 ? "pipedream" : "1f1b",
                                          .depth = 4,
                                          .micro_batches = versions > 1 ? 1 : 4,
                                          .width = versions > 1 ? 1 : 2,
                                          .zero_stage = versions > 1 ? 0 : zero},
                                         false);
      Shape shape{small_model(false), {1, 1, 1, 1}, 2, 16};
      const WorkerFootprint wide = worker_footprint(all_stage_bytes(shape, s), s, nullptr, 0, 0);
      const double wide_message = message_bytes(shape);
      shape.type = DType::BF16;
      const WorkerFootprint narrow = worker_footprint(all_stage_bytes(shape, s), s, nullptr, 0, 0);
      INFO("ZeRO " << zero << ", " << versions << " versions");
      CHECK(wide.held.front().versions == versions);
      CHECK(item(wide, "master weights") == -1);  // no such line in the table
      CHECK(item(narrow, "weights") == item(wide, "weights") / 2);
      CHECK(item(narrow, "master weights") == item(wide, "Adam moments") / 2);
      for (const char* kept : {"gradients", "Adam moments", "reductions"})
        CHECK(item(narrow, kept) == item(wide, kept));
      // Of a buffer all but the statistics (four of norms, one per head and row) halve; of a
      // boundary buffer all but ids and losses.
      const Index R = 2 * 16, H = 2;
      CHECK(narrow.activation_buffer_bytes - 4 * (4 + H) * R ==
            (wide.activation_buffer_bytes - 4 * (4 + H) * R) / 2);
      CHECK(narrow.boundary_buffer_bytes - 4 * 3 * R ==
            (wide.boundary_buffer_bytes - 4 * 3 * R) / 2);
      CHECK(message_bytes(shape) == wide_message / 2);
    }
}

TEST_CASE("footprint: Chimera, tied: end workers hold both ends and four uses of the matrix") {
  const Shape shape{small_model(true), {1, 1, 1, 1}, 1, 16};
  const schedule::Schedule s =
      built({.schedule = "chimera", .depth = 4, .micro_batches = 4, .width = 2}, true);
  const std::vector<StageBytes> stages = all_stage_bytes(shape, s);
  const WorkerFootprint f = worker_footprint(stages, s, nullptr, 1, 0);
  // Worker 0: stage 0 (down), stage 3 (up), the matrix once; of the matrix it adds up its embedding
  // gradients of the down pipe and its head gradients of the up pipe apart.
  CHECK(item(f, "weights") == 4 * (2 * kBlock + kPositions + kNorm + kTable));
  CHECK(item(f, "gradients") == 4 * (2 * kBlock + kPositions + kNorm + 2 * kTable));
  CHECK(item(f, "Adam moments") == 8 * (2 * kBlock + kPositions + kNorm + kTable));
  // Two workers per replica bring two contributions to the matrix each: 8 in all over 4 members, of
  // which a member receives 6 quarters. A stage: 4 contributions, 3 quarters of it received.
  const Index matrix = 4 * kTable / 4 * 6, first = 4 * (kBlock + kPositions) / 4 * 3;
  CHECK(f.reductions == std::max(matrix, first));
  // Middle workers hold more in flight (the paper: D/2 + 1 at the ends, D in the middle) and no
  // end.
  const WorkerFootprint middle = worker_footprint(stages, s, nullptr, 0, 1);
  CHECK(f.activation_buffers == 3);
  CHECK(middle.activation_buffers == 4);
  CHECK(item(middle, "weights") == 4 * 2 * kBlock);
}

TEST_CASE(
    "footprint: recomputation keeps edges and one activation buffer; a second version doubles "
    "weights") {
  Shape shape{small_model(false), {1, 1, 1, 1}, 1, 16};
  schedule::Request r{.schedule = "1f1b", .depth = 4, .micro_batches = 8};
  const schedule::Schedule whole = built(r, false);
  r.recompute = true;
  const schedule::Schedule again = built(r, false);
  const WorkerFootprint kept =
      worker_footprint(all_stage_bytes(shape, whole), whole, nullptr, 0, 0);
  shape.recompute = nn::Recompute::Full;
  const WorkerFootprint made =
      worker_footprint(all_stage_bytes(shape, again), again, nullptr, 0, 0);
  CHECK(kept.activation_buffers == 4);  // 1F1B's first worker: D in flight
  CHECK(made.activation_buffers == 1);
  CHECK(made.boundary_buffers >= 4);
  CHECK(made.bytes() < kept.bytes());
  shape.recompute = nn::Recompute::None;
  const schedule::Schedule stale =
      built({.schedule = "pipedream-2bw", .depth = 4, .micro_batches = 8}, false);
  const WorkerFootprint two = worker_footprint(all_stage_bytes(shape, stale), stale, nullptr, 0, 1);
  CHECK(item(two, "weights") == 2 * 4 * kBlock);
  CHECK(item(two, "Adam moments") == 8 * kBlock);
}

TEST_CASE("footprint: ZeRO 1 shares moments out, and the shares make the whole") {
  const Shape shape{small_model(true), {1, 1, 1, 1}, 1, 16};
  schedule::Request r{.schedule = "chimera", .depth = 4, .micro_batches = 4, .width = 2};
  const schedule::Schedule plain = built(r, true);
  r.zero_stage = 1;
  const schedule::Schedule zero = built(r, true);
  const std::vector<StageBytes> stages = all_stage_bytes(shape, zero);
  Index shared = 0, once = 0;
  for (int replica = 0; replica < 2; ++replica)
    for (int worker = 0; worker < 4; ++worker)
      shared += worker_footprint(stages, zero, nullptr, replica, worker).moments();
  for (const StageBytes& stage : stages) once += 2 * stage.parameters.layout.bytes();
  CHECK(shared == once);
  // Two copies of every stage, in each of two replicas; the matrix at two workers: 4 times as much.
  Index repeated = 0;
  for (int replica = 0; replica < 2; ++replica)
    for (int worker = 0; worker < 4; ++worker)
      repeated += worker_footprint(stages, plain, nullptr, replica, worker).moments();
  CHECK(repeated == 4 * once);
}

TEST_CASE("footprint: shards begin where blocks of 4,096 elements do") {
  const model::ModelConfig m = small_model(false);
  const StageBytes stage = stage_bytes({m, {2, 2}, 1, 16}, 0, false, 1);
  const nn::ParameterLayout& p = stage.parameters;
  for (const Index members : {1, 2, 3, 4, 7, 64, 1000}) {
    const std::vector<Index> borders = shard_borders(p, members);
    REQUIRE(std::ssize(borders) == members + 1);
    CHECK(borders.front() == 0);
    CHECK(borders.back() == p.layout.bytes() / 4);
    CHECK(std::ranges::is_sorted(borders));
    for (Index i = 1; i < members; ++i) {
      const Index at = borders[static_cast<std::size_t>(i)];
      const bool block = std::ranges::any_of(p.parameters, [&](const nn::Parameter& q) {
        const Index first = q.region.offset / 4;
        return at >= first && at < first + q.region.size() && (at - first) % kShardBlock == 0;
      });
      CHECK((block || at == borders.back()));
      // Never further from equal parts than half a block (or the padding before a tensor).
      CHECK(std::abs(at - borders.back() * i / members) <= kShardBlock / 2 + 16);
    }
  }
}

}  // namespace chimera::plan
