// Hostile schedule, costs, cluster and calibration files: refused by an Error or, where accepted,
// harmless: a schedule that is proved is also simulated. Under the sanitizers nothing else may
// happen.
#include <cmath>
#include <random>
#include <regex>
#include <sstream>

#include "chimera/plan/calibration.h"
#include "chimera/plan/cluster.h"
#include "chimera/schedule/build.h"
#include "chimera/schedule/render.h"
#include "chimera/schedule/simulate.h"
#include "mutate.h"
#include "support/support.h"

namespace chimera::test {
namespace {

using namespace schedule;

std::vector<std::string> schedule_files() {
  std::vector<std::string> files;
  for (const Request& request :
       {Request{.schedule = "gpipe", .depth = 2, .micro_batches = 2, .tied = true},
        Request{.schedule = "1f1b", .depth = 3, .micro_batches = 2, .width = 3, .zero_stage = 1},
        Request{.schedule = "gems", .depth = 2, .micro_batches = 3},
        Request{.depth = 4, .micro_batches = 4, .pipeline_pairs = 2, .gradient_sync = "eager"},
        Request{.depth = 2, .micro_batches = 4, .scaling = "doubling", .recompute = true},
        Request{.depth = 4, .micro_batches = 4, .split_backward = true, .overlap_steps = true},
        Request{.schedule = "pipedream", .depth = 3, .micro_batches = 1},
        Request{.schedule = "pipedream-2bw", .depth = 2, .micro_batches = 2},
        Request{.schedule = "interleaved", .depth = 2, .micro_batches = 2, .virtual_stages = 2},
        Request{.schedule = "zb-h1", .depth = 2, .micro_batches = 3}})
    files.push_back(to_json(build_schedule(request)));
  return files;
}

void prove_and_simulate(const std::string& input) {
  const Schedule s = from_json(input, "f");
  verify(s);
  const Simulation simulation = simulate(s, {}, {.steps = 2});
  if (!std::isfinite(simulation.makespan) || simulation.makespan < 0)
    throw std::runtime_error("a makespan that is none");
  if (from_json(to_json(s), "f") != s) throw std::runtime_error("reads back as another");
}

// What stays JSON, so that the verifier has to judge it: a number replaced, or a line (mostly an
// instruction) moved, doubled or left out.
std::string damaged(const std::string& file, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  std::vector<std::string> lines;
  std::istringstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (std::size_t edits = 1 + below(2); edits > 0; --edits) {
    const std::size_t from = below(lines.size()), to = below(lines.size());
    switch (below(6)) {
      case 0: std::swap(lines[from], lines[to]); break;
      case 1: lines.insert(lines.begin() + static_cast<long>(to), lines[from]); break;
      case 2: lines.erase(lines.begin() + static_cast<long>(from)); break;
      default: {
        static const std::regex number("-?[0-9]+");
        const char* const values[] = {
            "0",    "1",    "2",     "3",        "5",         "-1",         "-3",         "64",
            "4095", "4096", "65536", "16777216", "268435456", "2147483647", "-2147483648"};
        std::vector<std::smatch> found;
        for (std::sregex_iterator i(lines[from].begin(), lines[from].end(), number), end; i != end;
             ++i)
          found.push_back(*i);
        if (found.empty()) break;
        const std::smatch& match = found[below(found.size())];
        lines[from] =
            match.prefix().str() + values[below(std::size(values))] + match.suffix().str();
      }
    }
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("schedule files: numbers and lines changed are refused, or proved and then simulated") {
  std::mt19937 random(5);
  const int rounds = 400;
  int refused = 0, accepted = 0;
  const std::vector<std::string> files = schedule_files();
  for (const std::string& file : files)
    for (int round = 0; round < rounds; ++round) {
      const std::string input = damaged(file, random);
      try {
        prove_and_simulate(input);
        ++accepted;
      } catch (const Error&) {
        ++refused;
      }
    }
  // A larger pool of buffers, another tick or a swap of what commutes is no damage.
  CHECK(accepted > 0);
  CHECK(refused > static_cast<int>(files.size()) * rounds / 2);
}

TEST_CASE("schedule files: mutations are refused, or proved and then simulated") {
  const std::vector<std::string> files = schedule_files();
  const int mutations = 300;
  const FuzzCount count = replay(files, mutations, prove_and_simulate);
  const int seeds = static_cast<int>(files.size());
  CHECK(count.accepted >= seeds);
  // Most edits break the text, a key or a number; a tick or a name may change without harm.
  CHECK(count.refused > seeds * mutations * 2 / 3);
}

TEST_CASE("costs files: mutations are refused, or cost what is finite") {
  Costs costs;
  costs.forward = {1, 2};
  costs.recompute = {0.5};
  costs.gradient_bytes = {1e6, 1e7};
  costs.message_bytes = 1e5;
  costs.inter_node = costs.reduction_inter_node = {1e-6, 1e-10};
  costs.workers_per_node = 2;
  const Schedule s = build_schedule(
      {.schedule = "1f1b", .depth = 2, .micro_batches = 2, .width = 2, .recompute = true});
  const FuzzCount count = replay({write_costs(costs)}, 3000, [&](const std::string& input) {
    const double makespan = simulate(s, read_costs(input, "f")).makespan;
    if (!std::isfinite(makespan) || makespan < 0) throw std::runtime_error("no makespan");
  });
  CHECK(count.accepted >= 1);
  CHECK(count.refused > 1500);
}

TEST_CASE(
    "cluster and calibration files: mutations are refused, or read as they would be written") {
  std::vector<std::string> clusters;
  for (const char* name : {"piz-daint.json", "dgx-h100.json", "gh200-alps.json"})
    clusters.push_back(slurp(source_folder() / "configs" / "clusters" / name));
  const FuzzCount machines = replay(clusters, 1000, [](const std::string& input) {
    const plan::Cluster c = plan::parse_cluster(input, "f");
    for (const plan::Link& link : {c.inter_node, c.intra_node})
      if (!(link.seconds(1e9) > 0) || !std::isfinite(link.seconds(1e9)))
        throw std::runtime_error("a message takes no time, or all of it");
  });
  CHECK(machines.accepted >= 3);

  plan::Calibration measured{.machine = "m", .cores = 2, .memory_bytes = 8e9};
  measured.steps.push_back({.name = "s", .C = 64, .H = 4, .V = 100, .T = 16});
  plan::PieceTimes& times = measured.steps[0].times;
  times.block_forward = times.block_input = times.block_weight = times.head = 1e-3;
  times.block_selective = times.block_refill = 1e-4;
  times.embedding_forward = times.embedding_backward = 1e-5, times.optimizer = 1e-9;
  measured.p2p.push_back(
      {.transport = "local", .alpha = 1e-6, .beta = 1e-10, .points = {{256, 1e-6}, {4096, 2e-6}}});
  const std::string text = plan::to_json(measured);
  const FuzzCount calibrations = replay({text}, 3000, [](const std::string& input) {
    const std::string once = plan::to_json(plan::parse_calibration(input, "f"));
    if (plan::to_json(plan::parse_calibration(once, "g")) != once)
      throw std::runtime_error("reads back as another");
  });
  CHECK(calibrations.accepted >= 1);
  CHECK(calibrations.refused > 1500);
}

}  // namespace chimera::test
