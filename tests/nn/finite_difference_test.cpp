// Every gradient of a whole model against differences of its loss.
#include <cmath>
#include <functional>

#include "stage_bench.h"
#include "support/support.h"

using namespace chimera;

namespace {

// One parameter of the model, and its place in a bench.
struct Place {
  std::string name;
  std::function<Tensor(const nn::Pass&)> weights;
  std::function<std::vector<Tensor>(const nn::Pass&)> gradients;  // to be added up
};

std::vector<Place> places(const StageBench& bench, bool tied) {
  std::vector<Place> out;
  for (const nn::Parameter& p : bench.stage().parameters().parameters)
    out.push_back(
        {p.name, [p](const nn::Pass& pass) { return pass.weights.at(p.region); },
         [p](const nn::Pass& pass) { return std::vector<Tensor>{pass.gradients.at(p.region)}; }});
  if (!tied) return out;
  const nn::Parameter p = bench.tied_parameters().parameters.front();
  out.push_back({p.name, [p](const nn::Pass& pass) { return pass.tied_weights.at(p.region); },
                 [p](const nn::Pass& pass) {
                   return std::vector<Tensor>{pass.tied_embedding_gradients.at(p.region),
                                              pass.tied_head_gradients.at(p.region)};
                 }});
  return out;
}

constexpr Index kSamples = StageBench::kSamples;

double loss_at(const StageCase& c, const Place& place, const std::vector<float>& direction,
               float step) {
  StageBench b(c);
  const nn::Pass pass = b.pass(0, kSamples);
  float* w = place.weights(pass).f32();
  for (std::size_t i = 0; i < direction.size(); ++i) w[i] += step * direction[i];
  b.forward(0, kSamples);
  const Tensor losses = b.stage().losses(b.boundary(0, kSamples));
  double sum = 0;
  for (Index i = 0; i < losses.size(); ++i) sum += static_cast<double>(losses.f32()[i]);
  return sum * static_cast<double>(pass.loss_scale);
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

std::vector<float> unit(std::vector<float> v) {
  const auto norm = static_cast<float>(std::sqrt(dot(v, v)));
  for (float& x : v) x /= norm;
  return v;
}

}  // namespace

// Along the gradient, where the difference must be its length, and along a random direction. A
// step of 0.02 leaves a curvature of up to 0.3 % and rounding of 1e-6 / 0.04 of a loss near 5.
TEST_CASE("gradients of every parameter equal differences of the loss, dropout on") {
  for (const bool tied : {true, false}) {
    const StageCase c{.layers = {3}, .tied = tied};
    StageBench b(c);
    b.forward(0, kSamples);
    b.backward(0, kSamples);
    const nn::Pass pass = b.pass(0, kSamples);
    for (const Place& place : places(b, tied)) {
      std::vector<float> gradient(static_cast<std::size_t>(place.weights(pass).size()));
      for (const Tensor& part : place.gradients(pass))
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += part.f32()[i];
      std::vector<float> random(gradient.size());
      fill_normal(random.data(), static_cast<Index>(random.size()), 0, 0, 1, 31, 7);
      const double length = std::sqrt(dot(gradient, gradient));
      REQUIRE(length > 0);
      for (const std::vector<float>& direction : {unit(gradient), unit(random)}) {
        constexpr float h = 0.02f;
        const double slope =
            (loss_at(c, place, direction, h) - loss_at(c, place, direction, -h)) / (2.0 * h);
        INFO(place.name << " of length " << length);
        CHECK(std::abs(slope - dot(gradient, direction)) <= 0.01 * length);
      }
    }
  }
}
