#include "chimera/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chimera/base/rng.h"

namespace chimera::data {
namespace {

constexpr Index kRound = Index{1} << 20;  // slots
constexpr Index kRotation = 648055;       // odd, next to kRound * (sqrt(5) - 1) / 2
constexpr std::uint64_t kSeedStep = 0x9E3779B97F4A7C15u;

// sum over i in [0, n) of floor((a i + b) / m), a, b >= 0, by Euclid's algorithm. All values stay
// far below 2^63: n, m <= 2^20, a, b < 2^21.
Index floor_sum(Index n, Index m, Index a, Index b) {
  Index sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const Index top = a * n + b;
    n = top / m;
    b = top % m;
    std::swap(m, a);
  }
  return sum;
}

// How many of p' = 0 … p - 1 have a slot below `slot`.
Index draws_below(Index slot, Index p) {
  return floor_sum(p, kRound, kRotation, kRound) - floor_sum(p, kRound, kRotation, kRound - slot);
}

// Slots per source: the largest remainder, at least one each.
std::vector<Index> share_out(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Index> slots;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / total * static_cast<double>(kRound);
    slots.push_back(std::max(Index{1}, static_cast<Index>(exact)));
    remainders.emplace_back(static_cast<double>(slots.back()) - exact, i);
  }
  std::sort(remainders.begin(), remainders.end());
  Index left = kRound - std::accumulate(slots.begin(), slots.end(), Index{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % remainders.size(), --left)
    ++slots[remainders[i].second];
  // Sources raised to one slot are paid for by the largest.
  for (; left < 0; ++left) --*std::max_element(slots.begin(), slots.end());
  return slots;
}

std::vector<double> weights_of(const std::vector<Mixture::Source>& sources) {
  std::vector<double> out;
  for (const Mixture::Source& source : sources) out.push_back(source.weight);
  return out;
}

}  // namespace

Index SampleOrder::at(Index g) const {
  ENSURE(samples > 0 && g >= 0, "sample number ", g, " of a data set of ", samples,
         " is asked for");
  return permute_index(g % samples, samples, seed, static_cast<std::uint64_t>(g / samples));
}

Proportions::Proportions(const std::vector<double>& weights) {
  ENSURE(!weights.empty() && weights.size() <= 1024, "data.train names ", weights.size(),
         " sources; 1 to 1,024 can be mixed");
  for (const double weight : weights)
    ENSURE(std::isfinite(weight) && weight > 0 && weight < 1e300, "data.train: the weight ", weight,
           " is not a positive number");
  first_slot_.push_back(0);
  for (const Index slots : share_out(weights)) first_slot_.push_back(first_slot_.back() + slots);
}

Proportions::Draw Proportions::at(Index g) const {
  ENSURE(g >= 0, "sample number ", g, " is asked for");
  const Index round = g / kRound, p = g % kRound, slot = p * kRotation % kRound;
  const auto after = std::upper_bound(first_slot_.begin(), first_slot_.end(), slot);
  const Index begin = *(after - 1), end = *after;
  return {after - first_slot_.begin() - 1,
          round * (end - begin) + draws_below(end, p) - draws_below(begin, p)};
}

Mixture::Mixture(std::vector<Source> sources, std::uint64_t seed)
    : sources_(std::move(sources)), proportions_(weights_of(sources_)) {
  for (const Source& source : sources_) {
    ENSURE(source.dataset.sequence_length() == sequence_length(), "sources with sequences of ",
           source.dataset.sequence_length(), " and ", sequence_length(), " tokens cannot be mixed");
    orders_.push_back({source.dataset.samples(), seed});
    seed += kSeedStep;
  }
}

Mixture::Position Mixture::at(Index g) const {
  const Proportions::Draw draw = proportions_.at(g);
  return {draw.source, orders_[static_cast<std::size_t>(draw.source)].at(draw.number)};
}

void Mixture::read(Index g, std::int32_t* inputs, std::int32_t* targets) const {
  const Position position = at(g);
  source(position.source).read(position.sample, inputs, targets);
}

Index Mixture::samples() const {
  Index sum = 0;
  for (const Source& source : sources_) sum += source.dataset.samples();
  return sum;
}

Index Mixture::tokens() const {
  Index sum = 0;
  for (const Source& source : sources_) sum += source.dataset.tokens();
  return sum;
}

std::string Mixture::fingerprint() const {
  if (sources_.size() == 1) return sources_.front().dataset.fingerprint();
  Checksum sum;
  for (const Source& source : sources_) {
    const std::string line = concat(source.dataset.fingerprint(), ' ', source.weight, '\n');
    sum.add(std::as_bytes(std::span(line)));
  }
  return sum.hex();
}

}  // namespace chimera::data
