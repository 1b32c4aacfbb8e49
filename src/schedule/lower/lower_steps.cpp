#include "lower_steps.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace chimera::schedule {
namespace {

int last_tick(const ComputePlan& plan) {
  int last = -1;
  for (const std::vector<Instr>& list : plan.workers)
    if (!list.empty()) last = std::max(last, list.back().tick);
  return last;
}

}  // namespace

Timeline::Timeline(const ComputePlan& plan, const LowerOptions& options)
    : plan_(plan),
      options_(options),
      period_(plan.period > 0 ? plan.period : last_tick(plan) + 1),
      items_(at(plan.depth)),
      last_sends_(at(plan.depth)) {
  out_.name = plan.name;
  out_.depth = plan.depth;
  out_.micro_batches = plan.micro_batches;
  out_.pipeline_pairs = plan.pipeline_pairs;
  out_.virtual_stages = plan.virtual_stages;
  out_.tied = options.tied;
  out_.width = options.width;
  out_.forward_only = plan.forward_only;
  out_.placement = plan.placement;
  out_.groups = make_groups(plan.placement, options.tied);
  out_.programs.resize(at(plan.depth));
  out_.versions.assign(out_.groups.size(), 1);
  out_.accumulators.assign(out_.groups.size(), 1);
  out_.period = plan.period;
  lease_of_.assign(at(plan.stages()) * at(plan.micro_batches), -1);
  for (const Group& group : out_.groups) reductions_.push_back(find_reduction(group));
  constexpr std::size_t kUsual = 7;  // instructions that a computation brings with it
  for (int w = 0; w < plan.depth; ++w) items_[at(w)].reserve(kUsual * plan.workers[at(w)].size());
}

void Timeline::place(int worker, Instr in, Phase phase) {
  items_[at(worker)].push_back({phase, std::move(in)});
}

void Timeline::last_send(int worker, const Instr& send) {
  message(worker, send);
  last_sends_[at(worker)].push_back(send);
}

void Timeline::finished(int worker, const Instr& in, int first, int size) {
  Instr free;
  free.op = Op::Release;
  free.pipe = in.pipe;
  free.stage = in.stage;
  free.micro = first;
  free.count = size;
  for (Instr micro = free; micro.micro < first + size; ++micro.micro)
    lease_of(micro) = static_cast<int>(leases_.size());
  leases_.push_back({worker, free, in.tick});
}

Schedule Timeline::finish() {
  wait_for_last_sends();
  release_buffers();
  if (!plan_.forward_only) {
    if (plan_.period > 0)
      overlap();
    else
      end_with_barrier();
  }
  fold();
  count_buffers();
  return std::move(out_);
}

// A worker has one last message on its way: it waits for it before it starts the next, or at the
// end of the iteration. A buffer outlives its last computation by no more than that.
void Timeline::wait_for_last_sends() {
  for (int w = 0; w < plan_.depth; ++w) {
    const auto& sends = last_sends_[at(w)];
    std::vector<const Instr*> order;
    for (const Instr& send : sends) order.push_back(&send);
    std::ranges::stable_sort(order, {}, [&](const Instr* s) { return position(s->tick); });
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Instr& send = *order[i];
      Instr wait = send;
      wait.op = Op::SendWait;
      const bool end = i + 1 == order.size();
      // The next in the body, in the iteration of this one.
      wait.tick += (end ? period_ - 1 : position(order[i + 1]->tick)) - position(send.tick);
      const Phase phase = end ? Phase::Close : Phase::Wait;
      place(w, wait, phase);
      Lease& t = leases_[at(lease_of(send))];
      if (std::tuple(t.tick, t.phase) < std::tuple(wait.tick, phase)) {
        t.tick = wait.tick;
        t.phase = phase;
      }
    }
  }
}

void Timeline::release_buffers() {
  std::ranges::sort(leases_, {},
                    [](const Lease& t) { return std::tuple(t.free.stage, t.free.micro); });
  for (Lease& t : leases_) {
    t.free.tick = t.tick;
    place(t.worker, t.free, t.phase);
  }
}

// Embedding gradients come with stage 0's weight gradients, the head's with the last stage's
// forwards.
std::map<int, Timeline::Use> Timeline::uses(const Group& group) const {
  const int last = plan_.stages() - 1;
  std::map<int, Use> uses;
  for (const Holder& h : group.holders) uses[h.worker];
  for (auto& [worker, use] : uses)
    for (const Instr& in : plan_.workers[at(worker)]) {
      const bool mine =
          group.stage > last ? in.stage == 0 || in.stage == last : in.stage == group.stage;
      if (!mine) continue;
      use.version = std::max(use.version, in.version);
      if (in.op == Op::Forward) use.first_forward = std::min(use.first_forward, in.tick);
      if (in.op == Op::BackwardInput || (in.op == Op::Forward && in.stage != last)) continue;
      use.first_gradient = std::min(use.first_gradient, in.tick);
      use.last_gradient = std::max(use.last_gradient, in.tick);
    }
  return uses;
}

Op Timeline::find_reduction(const Group& group) const {
  if (out_.contributions(group) < 2) return Op::Update;
  std::set<int> workers;
  for (const Holder& h : group.holders) workers.insert(h.worker);
  const bool alone = workers.size() * at(options_.width) == 1;
  return options_.zero_stage > 0 && !alone ? Op::ReduceScatterStart : Op::AllReduceStart;
}

void Timeline::step_op(int worker, Op op, int stage, int tick, Phase phase) {
  Instr in;
  in.tick = tick;
  in.op = op;
  in.stage = stage;
  place(worker, in, phase);
}

void Timeline::collective(int worker, Op op, int stage, int tick, Phase phase) {
  Instr in;
  in.tick = tick;
  in.op = op;
  in.stage = in.group = stage;
  place(worker, in, phase);
}

// Paper, section 3.2: eager synchronisation pays where a bubble follows in which it can progress.
bool Timeline::has_bubble_after(const Group& group, int tick) const {
  return std::ranges::all_of(group.holders, [&](const Holder& h) {
    const std::vector<Instr>& list = plan_.workers[at(h.worker)];
    const auto later = std::ranges::count_if(list, [&](const Instr& in) { return in.tick > tick; });
    return list.back().tick - tick > later;
  });
}

bool Timeline::starts_eagerly(const Group& group, int tick) const {
  return options_.gradient_sync == "eager" ||
         (options_.gradient_sync == "eager-opt" && has_bubble_after(group, tick));
}

// After the last computation: reductions, larger stage first since it is complete first, the tied
// matrix at the end; with sharded optimizer state the norms of what is sharded; the step
// synchronisation; updates; then the new weights of what is sharded.
void Timeline::end_with_barrier() {
  const int end = period_ - 1, S = plan_.stages();
  std::vector<const Group*> order;
  for (const Group& group : out_.groups) order.push_back(&group);
  std::ranges::stable_sort(order, [&](const Group* a, const Group* b) {
    return std::tuple(a->stage == S, -a->stage) < std::tuple(b->stage == S, -b->stage);
  });
  std::map<int, int> complete;  // stage -> tick
  for (const Group* group : order)
    for (const auto& [worker, use] : uses(*group))
      complete[group->stage] = std::max(complete[group->stage], use.last_gradient);
  std::ranges::stable_sort(order, {}, [&](const Group* g) {
    const int tick = complete[g->stage];
    return starts_eagerly(*g, tick) ? tick : end;
  });
  for (int w = 0; w < plan_.depth; ++w) {
    std::vector<const Group*> mine;
    for (const Group* group : order)
      if (std::ranges::count(group->holders, w, &Holder::worker) > 0) mine.push_back(group);
    for (const Group* group : mine) {
      const Op op = reduction_of(*group);
      if (op == Op::Update) continue;
      const int tick = complete[group->stage];
      const bool eager = starts_eagerly(*group, tick);
      collective(w, op, group->stage, eager ? tick : end, Phase::Reduce);
    }
    for (const Group* group : mine)
      if (const Op op = reduction_of(*group); op != Op::Update)
        collective(w, op == Op::AllReduceStart ? Op::AllReduceWait : Op::ReduceScatterWait,
                   group->stage, end, Phase::Close);
    std::ranges::sort(mine, {}, &Group::stage);
    for (const Group* group : mine)
      if (reduction_of(*group) == Op::ReduceScatterStart)
        collective(w, Op::GradNorm, group->stage, end + 1, Phase::Close);
    step_op(w, Op::StepSyncStart, -1, end + 1, Phase::Close);
    step_op(w, Op::StepSyncWait, -1, end + 1, Phase::Close);
    for (const Group* group : mine) {
      step_op(w, Op::Update, group->stage, end + 2, Phase::Close);
      if (reduction_of(*group) == Op::ReduceScatterStart)
        collective(w, Op::AllGatherStart, group->stage, end + 2, Phase::Close);
    }
    for (const Group* group : mine)
      if (reduction_of(*group) == Op::ReduceScatterStart)
        collective(w, Op::AllGatherWait, group->stage, end + 3, Phase::Close);
  }
}

// No barrier: a stage is reduced when its own gradients are complete everywhere, and updated at the
// latest before its weights or its accumulators are needed by a later step. Weights of a step with
// lag v are those after v fewer updates, so v + 1 versions are kept; accumulators as many as steps
// that fill them at once (the tied matrix under 2BW: the head is a step ahead of the embedding).
void Timeline::overlap() {
  int last_update = 0;
  for (const Group& group : out_.groups) {
    const std::map<int, Use> workers = uses(group);
    int complete = 0, version = 0, accumulators = 1;
    for (const auto& [worker, use] : workers) {
      complete = std::max(complete, use.last_gradient);
      version = std::max(version, use.version);
    }
    for (const auto& [worker, use] : workers)
      if (use.first_gradient != kNever)
        accumulators = std::max(accumulators, (complete - use.first_gradient) / period_ + 1);
    out_.versions[at(group.stage)] = version + 1;
    out_.accumulators[at(group.stage)] = accumulators;
    const bool reduced = reduction_of(group) != Op::Update;
    for (const auto& [w, use] : workers) {
      int needed = std::min(use.first_forward + (version + 1) * period_,
                            use.first_gradient + accumulators * period_);
      if (use.first_forward == kNever) needed = complete + 1;  // a pipe without micro-batches
      ENSURE(needed > complete, "schedule ", plan_.name, ": worker ", w,
             " needs the updated stage ", group.stage, " at tick ", needed,
             ", before its gradients are complete at tick ", complete);
      if (reduced) {
        collective(w, Op::AllReduceStart, group.stage, complete, Phase::Reduce);
        collective(w, Op::AllReduceWait, group.stage, needed, Phase::Update);
      }
      step_op(w, Op::Update, group.stage, needed, Phase::Update);
      last_update = std::max(last_update, needed);
    }
  }
  const int step_sync = last_update / period_ * period_ + period_ - 1;
  // Workers may be as far apart as the pipeline is long; nobody waits for a report.
  const int timeout_scale = 1 + plan_.depth / period_;
  for (int w = 0; w < plan_.depth; ++w) {
    step_op(w, Op::StepSyncStart, -1, step_sync, Phase::Close);
    step_op(w, Op::StepSyncWait, -1, step_sync + timeout_scale * period_, Phase::Close);
  }
}

// Software pipelining's kernel: tick t of a step becomes place t mod period of the body, executed
// for the step that began t / period iterations before.
void Timeline::fold() {
  for (int w = 0; w < plan_.depth; ++w) {
    const std::vector<Item>& items = items_[at(w)];
    std::vector<Place> places;
    places.reserve(items.size());
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      const auto& [phase, in] = items[at(i)];
      if (plan_.period > 0)
        places.push_back({position(in.tick), phase, in.tick / period_, i});
      else
        places.push_back({in.tick, phase, 0, i});
    }
    std::ranges::sort(places);
    std::vector<Instr>& body = out_.programs[at(w)].body;
    body.reserve(places.size());
    for (const Place& place : places) {
      Instr& in = body.emplace_back(items[at(place.index)].in);
      in.tick = place.tick;
      in.step = -place.lag;
    }
  }
}

// Peaks over a run long enough to fill.
void Timeline::count_buffers() {
  const int lag = out_.lag(), span = out_.span(), steps = lag + 2;
  const int blocks = (plan_.micro_batches + span - 1) / span;
  struct InUse {
    bool boundary = false;
    int live = 0;  // micro-batches that need the activation buffer
  };
  std::vector<InUse> in_use(at(steps) * at(plan_.stages()) * at(blocks));
  const bool kept = out_.keeps_activations();
  for (const Program& program : out_.programs) {
    int activations = 0, boundaries = 0, most_activations = 0, most_boundaries = 0;
    for (int k = 0; k < steps + lag; ++k)
      for (const Instr& in : program.body) {
        const int step = k + in.step;
        if (step < 0 || step >= steps || in.micro < 0) continue;
        InUse& t = in_use[(at(step) * at(plan_.stages()) + at(in.stage)) * at(blocks) +
                          at(in.micro / span)];
        if (acquires_boundary(in.op) && !std::exchange(t.boundary, true)) ++boundaries;
        if (releases_boundary(in.op) && std::exchange(t.boundary, false)) --boundaries;
        if (acquires_activations(in.op) && std::exchange(t.live, t.live + in.count) == 0)
          ++activations;
        most_activations = std::max(most_activations, activations);
        most_boundaries = std::max(most_boundaries, boundaries);
        if (releases_activations(in.op, kept) && (t.live -= in.count) == 0) --activations;
      }
    out_.activation_buffers.push_back(most_activations);
    out_.boundary_buffers.push_back(most_boundaries);
  }
}

}  // namespace chimera::schedule
