#include "chimera/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "data_support.h"

using namespace chimera;
using namespace chimera::data;
using namespace chimera::test;

TEST_CASE("three epochs bring every sample three times, once per epoch, in three orders") {
  for (const Index n : {1, 2, 7, 100, 257}) {
    const SampleOrder order{n, 42};
    std::vector<std::vector<Index>> epochs;
    for (Index epoch = 0; epoch < 3; ++epoch) {
      std::vector<Index> ids;
      for (Index i = 0; i < n; ++i) ids.push_back(order.at(epoch * n + i));
      epochs.push_back(ids);
      std::sort(ids.begin(), ids.end());
      for (Index i = 0; i < n; ++i) REQUIRE(ids[static_cast<std::size_t>(i)] == i);
    }
    if (n >= 7) {
      CHECK(epochs[0] != epochs[1]);
      CHECK(epochs[1] != epochs[2]);
      CHECK(epochs[0] != epochs[2]);
    }
    if (n >= 100)
      CHECK(SampleOrder{n, 43}.at(0) + n * SampleOrder{n, 43}.at(1) !=
            order.at(0) + n * order.at(1));
  }
  CHECK_THAT(error_of([] { SampleOrder{0, 1}.at(0); }), Catch::Contains("data set of 0"));
}

TEST_CASE("draws are in proportion to the weights at every length, and numbered without gaps") {
  const std::vector<std::vector<double>> cases = {
      {1}, {3, 7}, {1, 1, 1}, {0.3, 0.2, 0.5, 1e-9}, {1e-4, 1, 1e4}};
  for (const std::vector<double>& weights : cases) {
    const Proportions proportions(weights);
    double total = 0;
    for (const double weight : weights) total += weight;
    std::vector<Index> drawn(weights.size(), 0);
    double worst = 0;
    bool without_gaps = true;
    for (Index g = 0; g < (Index{1} << 20) + 5000; ++g) {
      const Proportions::Draw draw = proportions.at(g);
      without_gaps &= draw.number == drawn[static_cast<std::size_t>(draw.source)]++;
      for (std::size_t i = 0; i < weights.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(drawn[i]) -
                                         weights[i] / total * static_cast<double>(g + 1)));
    }
    // A golden-ratio rotation has logarithmic discrepancy: 20 bits stay far below 10; 2 more for
    // the rounding of weights to 2^-20 and the least slot of a tiny weight.
    CAPTURE(worst);
    CHECK(worst < 10);
    CHECK(without_gaps);
  }
}

TEST_CASE("a draw far into the training needs no history") {
  const Proportions proportions({0.3, 0.7});
  const Index round = Index{1} << 20, far = round * 1'000'000'000;
  const Proportions::Draw early = proportions.at(12345), late = proportions.at(far + 12345);
  CHECK(late.source == early.source);
  const Index slots = early.source == 0 ? 314573 : 734003;  // 0.3 and 0.7 of 2^20
  CHECK(late.number == early.number + slots * 1'000'000'000);
}

TEST_CASE("weights that are no positive numbers are refused") {
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()})
    CHECK_THAT(error_of([&] {
                 Proportions({1, weight});
               }),
               Catch::Contains("not a positive number"));
  CHECK_THAT(error_of([] { Proportions({}); }), Catch::Contains("0 sources"));
}

TEST_CASE("a mixture brings each source's samples once per epoch of that source") {
  TemporaryFolder folder;
  spit(folder / "a.bin", counting_shard(8 * 5 + 1, 0));      // 5 samples
  spit(folder / "b.bin", counting_shard(8 * 20 + 1, 1000));  // 20
  const auto mixture = [&](double weight, std::uint64_t seed) {
    std::vector<Mixture::Source> sources;
    sources.push_back({Dataset({(folder / "a.bin").string()}, 8, 2000), weight});
    sources.push_back({Dataset({(folder / "b.bin").string()}, 8, 2000), 1 - weight});
    return Mixture(std::move(sources), seed);
  };
  const Mixture half = mixture(0.5, 9);
  std::map<Index, std::vector<Index>> seen;
  std::vector<std::int32_t> inputs(8), targets(8);
  for (Index g = 0; g < 80; ++g) {
    const Mixture::Position position = half.at(g);
    seen[position.source].push_back(position.sample);
    const Index base = position.source == 0 ? 0 : 1000;
    half.read(g, inputs.data(), targets.data());
    REQUIRE(inputs[0] == base + 8 * position.sample);
    REQUIRE(targets[7] == base + 8 * position.sample + 8);
  }
  CHECK(seen[0].size() + seen[1].size() == 80);
  CHECK(std::abs(static_cast<int>(seen[0].size()) - 40) <= 2);
  for (const auto& [source, n] : std::map<Index, std::size_t>{{0, 5}, {1, 20}})
    for (std::size_t epoch = 0; (epoch + 1) * n <= seen[source].size(); ++epoch) {
      std::vector<Index> ids(seen[source].begin() + static_cast<std::ptrdiff_t>(epoch * n),
                             seen[source].begin() + static_cast<std::ptrdiff_t>((epoch + 1) * n));
      std::sort(ids.begin(), ids.end());
      for (std::size_t i = 0; i < n; ++i) REQUIRE(ids[i] == static_cast<Index>(i));
    }
  CHECK(half.fingerprint() != mixture(0.4, 9).fingerprint());
  CHECK(half.samples() == 25);
}

TEST_CASE("a mixture of one data set is its SampleOrder") {
  TemporaryFolder folder;
  spit(folder / "a.bin", counting_shard(8 * 30 + 1, 0));
  std::vector<Mixture::Source> sources;
  sources.push_back({Dataset({(folder / "a.bin").string()}, 8, 2000), 0.2});
  const Mixture mixture(std::move(sources), 5);
  const SampleOrder order{30, 5};
  for (Index g = 0; g < 90; ++g) CHECK(mixture.at(g).sample == order.at(g));
  CHECK(mixture.fingerprint() == mixture.source(0).fingerprint());
}
