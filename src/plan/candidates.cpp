// Which layouts there are.
#include "candidates.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace chimera::plan {

void Refusals::add(const std::string& kind, const std::string& example, bool better) {
  const auto [it, fresh] = kinds_.try_emplace(kind, Refusal{kind, example, 0});
  if (better && !fresh) it->second.example = example;
  ++it->second.count;
}

std::vector<Refusal> Refusals::list() const {
  std::vector<Refusal> out;
  for (const auto& [kind, refusal] : kinds_) out.push_back(refusal);
  std::ranges::sort(out, std::greater(), &Refusal::count);
  return out;
}

bool is_stale(const schedule::ComputePlan& plan) {
  for (const std::vector<schedule::Instr>& worker : plan.workers)
    for (const schedule::Instr& in : worker)
      if (in.version > 0) return true;
  return false;
}

namespace {

using schedule::Request;

std::vector<Index> divisors(Index n) {
  std::vector<Index> low, high;
  for (Index d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      low.push_back(d);
      if (d != n / d) high.push_back(n / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// The ways to run one schedule at this depth: pipelines, scaling, halves, virtual stages.
std::vector<Request> variants(const Request& base, Index n_layer, bool overlap_steps) {
  const schedule::Traits traits = schedule::traits_of(base.schedule);
  std::vector<Request> out;
  const auto add_scalings = [&](Request r) {
    for (const char* scaling : {"direct", "doubling", "halving"}) {
      r.scaling = scaling;
      if (r.scaling == "direct" || (traits.takes_scaling && r.micro_batches > r.depth))
        out.push_back(r);
    }
  };
  const auto add_halves = [&](Request r) {
    r.split_backward = true;
    if (traits.takes_split_backward) out.push_back(r);
    r.overlap_steps = true;
    if (traits.takes_overlap_steps && overlap_steps) out.push_back(r);
  };
  const auto add_pairs = [&](Request r) {
    const Index most = traits.takes_pipeline_pairs ? std::max(1, r.depth / 2) : 1;
    for (const Index f : divisors(most)) {
      r.pipeline_pairs = narrow<int>(f);
      add_scalings(r);
      add_halves(r);
    }
  };
  if (!traits.takes_virtual_stages) add_pairs(base);
  for (Index v = 2; traits.takes_virtual_stages && v * base.depth <= n_layer; v *= 2) {
    Request r = base;
    r.virtual_stages = narrow<int>(v);
    add_pairs(r);
  }
  return out;
}

class Enumeration {
 public:
  Enumeration(const SearchRequest& request, Refusals& refusals)
      : request_(request), refusals_(refusals) {}

  std::vector<Family> run() {
    const std::set<std::string> known = [] {
      std::set<std::string> names;
      for (const schedule::ScheduleInfo& info : schedule::known_schedules())
        names.insert(info.name);
      return names;
    }();
    std::vector<std::string> names = request_.schedules;
    if (names.empty()) names.assign(known.begin(), known.end());
    for (const std::string& name : names)
      if (!known.contains(name))
        FailUsage("schedule '", name, "' is unknown; choose of ", schedule::schedule_names());
    if (!request_.stale)
      std::erase_if(names, [&](const std::string& name) {
        if (!schedule::traits_of(name).stale) return false;
        refusals_.add("schedules that compute with old weights",
                      name + " (ask for them to rank them)");
        return true;
      });
    for (const Index D : divisors(request_.workers)) depth(D, names);
    std::vector<Family> out;
    for (auto& [key, family] : families_) out.push_back(std::move(family));
    return out;
  }

 private:
  void depth(Index D, std::vector<std::string> names) {
    const Index W = request_.workers / D, L = request_.model.n_layer;
    if (D > L)
      return refusals_.add("more stages than layers",
                           concat("D ", D, ": the model has ", L, " layers"));
    if (request_.batch % W != 0)
      return refusals_.add("W does not divide the batch",
                           concat("D ", D, " W ", W, ": batch ", request_.batch));
    if (D == 1) names = at_depth_one(names);
    const Index samples = request_.batch / W;
    for (Index B = 1; B <= samples; B *= 2) {
      if (samples % B != 0) break;
      Request base;
      base.depth = narrow<int>(D);
      base.width = narrow<int>(W);
      base.tied = request_.model.tied_embeddings;
      if (!std::in_range<int>(samples / B)) continue;
      base.micro_batches = narrow<int>(samples / B);
      for (const std::string& name : names) {
        base.schedule = name;
        for (const Request& r : variants(base, L, request_.overlap_steps)) layout(r, B);
      }
    }
  }

  // With one stage every synchronous schedule is plain gradient accumulation: one of them is
  // enough.
  static std::vector<std::string> at_depth_one(const std::vector<std::string>& names) {
    Request one = schedule::serial_request();
    std::vector<std::string> plain{one.schedule};
    for (const schedule::ScheduleInfo& info : schedule::known_schedules()) {
      one.schedule = info.name;
      if (!info.traits.stale && !info.traits.takes_virtual_stages && schedule::refusal(one).empty())
        plain.push_back(info.name);
    }
    for (const std::string& name : plain)
      if (std::ranges::count(names, name) > 0) return {name};
    return names;
  }

  void layout(Request r, Index B) {
    for (const std::string& recompute : request_.recompute)
      for (const int zero : request_.zero_stages) {
        r.recompute = recompute == "full";
        r.zero_stage = zero;
        // A pending weight gradient keeps what would be recomputed.
        if (recompute == "selective" && schedule::splits_backward(r)) continue;
        // One program: doubling where it recomputes, halving where it does not.
        if (r.scaling == (recompute == "full" ? "halving" : "doubling")) continue;
        // Nobody to share with: as ZeRO 0.
        if (zero > 0 && r.width == 1 && !schedule::traits_of(r.schedule).bidirectional) continue;
        add(r, recompute, B);
      }
  }

  void add(const Request& r, const std::string& recompute, Index B) {
    Ranked ranked;
    ranked.candidate = {r, recompute, B, layers(B, Index{r.virtual_stages} * r.depth)};
    const Candidate& c = ranked.candidate;
    if (const std::string why = schedule::refusal(r).text; !why.empty())
      return refusals_.add("refused by schedule " + r.schedule, describe(c) + ": " + why);
    if (request_.refuse)
      if (const std::string why = request_.refuse(c); !why.empty())
        return refusals_.add("refused by the configuration", describe(c) + ": " + why);
    // Searched orders follow the times, which recomputation changes.
    const bool searched = schedule::splits_backward(r);
    const std::string key =
        concat(r.schedule, ' ', r.depth, ' ', r.micro_batches, ' ', r.pipeline_pairs, ' ',
               r.scaling, ' ', r.split_backward, ' ', r.overlap_steps, ' ', r.virtual_stages, ' ',
               B, ' ', searched ? recompute : "");
    Family& family = families_[key];
    if (family.members.empty()) family.request = r;
    family.members.push_back(std::move(ranked));
  }

  const std::vector<Index>& layers(Index B, Index stages) {
    std::vector<Index>& list = layers_[{B, stages}];
    if (list.empty())
      list = model::balanced_stage_layers(request_.model, stages, stage_costs(request_.times(B)));
    return list;
  }

  const SearchRequest& request_;
  Refusals& refusals_;
  std::map<std::string, Family> families_;
  std::map<std::pair<Index, Index>, std::vector<Index>> layers_;
};

}  // namespace

std::vector<Family> families(const SearchRequest& request, Refusals& refusals) {
  return Enumeration(request, refusals).run();
}

}  // namespace chimera::plan
