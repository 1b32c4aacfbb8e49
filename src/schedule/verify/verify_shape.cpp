// What can be refused without running anything: sizes, ranges, places.
#include <algorithm>

#include "chimera/schedule/lower.h"
#include "verify_state.h"

namespace chimera::schedule {
namespace {

constexpr Index kMostCells = Index{1}
                             << 24;  // stages x micro-batches: bounds the verifier's memory
constexpr int kMostWorkers = 1 << 12, kMostTick = 1 << 28, kMostLag = 1 << 12;

void check_sizes(const Schedule& s) {
  const auto positive = [](int value, const char* name, int most) {
    ENSURE(value >= 1 && value <= most, "schedule: ", name, " is ", value, "; it must be 1 to ",
           most);
  };
  positive(s.depth, "depth", kMostWorkers);
  positive(s.micro_batches, "micro_batches", 1 << 24);
  positive(s.virtual_stages, "virtual_stages", 1 << 16);
  positive(s.width, "width", (1 << 24) / s.depth);
  ENSURE(Index{s.depth} * s.virtual_stages <= kMostWorkers &&
             Index{s.stages()} * s.micro_batches <= kMostCells,
         "schedule: ", s.depth, " x ", s.virtual_stages, " stages with ", s.micro_batches,
         " micro-batches are too many to verify; at most ", kMostCells, " in the product");
  const auto per_worker = [&](std::size_t size, const char* name) {
    ENSURE(size == at(s.depth), "schedule: ", name, " has ", size, " entries for ", s.depth,
           " workers");
  };
  per_worker(s.programs.size(), "programs");
  per_worker(s.activation_buffers.size(), "activation_buffers");
  per_worker(s.boundary_buffers.size(), "boundary_buffers");
  ENSURE(s.period >= 0 && s.period <= kMostTick, "schedule: period is ", s.period,
         "; it must be 0 to ", kMostTick);
  const Index lag = s.lag();
  ENSURE(lag <= kMostLag, "schedule: an instruction belongs to a step ", lag,
         " iterations back; at most ", kMostLag);
  ENSURE(lag == 0 || s.period > 0,
         "schedule: period is 0, a barrier after every step, but an "
         "instruction belongs to a step ",
         lag, " iterations back");
  ENSURE((lag + 2) * s.stages() * s.micro_batches <= kMostCells, "schedule: ", s.stages(),
         " stages with ", s.micro_batches, " micro-batches over ", lag,
         " iterations are too many to verify; at most ", kMostCells, " in the product");
}

void check_placement(const Schedule& s) {
  ENSURE(!s.placement.empty() && s.pipes() <= std::max(2, s.depth), "schedule: placement has ",
         s.placement.size(), " pipes; it needs 1 to ", std::max(2, s.depth));
  ENSURE(s.pipeline_pairs >= 0 &&
             (s.pipeline_pairs == 0 ? s.pipes() == 1
                                    : s.pipes() / 2 == s.pipeline_pairs && s.pipes() % 2 == 0),
         "schedule: pipeline_pairs is ", s.pipeline_pairs, " but placement has ", s.pipes(),
         " pipes");
  for (int p = 0; p < s.pipes(); ++p) {
    ENSURE(s.placement[at(p)].size() == at(s.stages()), "schedule: pipe ", p, " places ",
           s.placement[at(p)].size(), " stages; there are ", s.stages());
    for (const int worker : s.placement[at(p)])
      ENSURE(worker >= 0 && worker < s.depth, "schedule: pipe ", p, " places a stage on worker ",
             worker, "; there are ", s.depth);
  }
  const std::vector<Group> expected = make_groups(s.placement, s.tied);
  ENSURE(s.groups.size() == expected.size(), "schedule: there are ", s.groups.size(), " groups; ",
         s.stages(), " stages", s.tied ? " and the tied matrix" : "", " need ", expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ENSURE(s.groups[i] == expected[i], "schedule: group ", i,
           " is not made of the holders of stage ", i, " in ascending (pipe, use)");
  const auto per_group = [&](const std::vector<int>& counts, const char* name) {
    ENSURE(counts.size() == s.groups.size(), "schedule: ", name, " has ", counts.size(),
           " entries for ", s.groups.size(), " groups");
    for (std::size_t i = 0; i < counts.size(); ++i)
      ENSURE(counts[i] >= 1 && counts[i] <= kMostLag, "schedule: ", name, " of group ", i, " is ",
             counts[i], "; it must be 1 to ", kMostLag);
  };
  per_group(s.versions, "versions");
  per_group(s.accumulators, "accumulators");
  for (int w = 0; w < s.depth; ++w) {
    const auto most = static_cast<int>(s.programs[at(w)].body.size()) * (kMostLag + 2);
    for (const int buffers : {s.activation_buffers[at(w)], s.boundary_buffers[at(w)]})
      ENSURE(buffers >= 0 && buffers <= most, "schedule: worker ", w, " has ",
             s.activation_buffers[at(w)], " activation buffers and ", s.boundary_buffers[at(w)],
             " boundary buffers; they must be 0 to ", most);
  }
}

bool is_message(Op op) {
  return op == Op::SendStart || op == Op::SendWait || op == Op::RecvStart || op == Op::RecvWait;
}

class InstrCheck {
 public:
  InstrCheck(const Schedule& s, int worker, int index)
      : s_(s), in_(s.programs[at(worker)].body[at(index)]), worker_(worker), index_(index) {}

  void run() const {
    ensure(in_.tick >= 0 && in_.tick <= kMostTick, "its tick is not in 0 to 2^28");
    ensure(in_.step <= 0, "its step is ahead of the iteration; it must be 0 or below");
    ensure(in_.version >= 0, "its weights cannot be newer than the step: version is at least 0");
    ensure((in_.message != Message::None) == is_message(in_.op),
           "a message is named by sends and receives, and by nothing else");
    switch (in_.op) {
      case Op::LoadMicro:
      case Op::Forward:
      case Op::Recompute:
      case Op::Backward:
      case Op::BackwardInput:
      case Op::BackwardWeight:
      case Op::Release: return micro();
      case Op::SendStart:
      case Op::SendWait:
      case Op::RecvStart:
      case Op::RecvWait: return micro(), message();
      case Op::AllReduceStart:
      case Op::AllReduceWait:
      case Op::ReduceScatterStart:
      case Op::ReduceScatterWait:
      case Op::GradNorm:
      case Op::AllGatherStart:
      case Op::AllGatherWait:
        ensure(in_.group == in_.stage, "its group is not that of the stage, ", in_.stage);
        return stage();
      case Op::Update: return stage();
      case Op::StepSyncStart:
      case Op::StepSyncWait: return;
    }
    ensure(false, "the operation is unknown");
  }

 private:
  template <class... Parts>
  void ensure(bool condition, const Parts&... parts) const {
    if (!condition) fail_at(s_, worker_, index_, concat(parts...));
  }
  void stage() const {
    ensure(in_.stage >= 0 && in_.stage < static_cast<int>(s_.groups.size()), "there is no stage ",
           in_.stage);
    const auto& holders = s_.groups[at(in_.stage)].holders;
    ensure(std::ranges::any_of(holders, [&](const Holder& h) { return h.worker == worker_; }),
           "the worker does not hold stage ", in_.stage);
  }
  void micro() const {
    ensure(in_.pipe >= 0 && in_.pipe < s_.pipes(), "there is no pipe ", in_.pipe);
    ensure(in_.stage >= 0 && in_.stage < s_.stages(), "there is no stage ", in_.stage);
    const int host = s_.placement[at(in_.pipe)][at(in_.stage)];
    ensure(host == worker_, "stage ", in_.stage, " of pipe ", in_.pipe, " is on worker ", host);
    ensure(in_.micro >= 0 && in_.count >= 1 && in_.micro <= s_.micro_batches - in_.count,
           "micro-batches ", in_.micro, " and on, ", in_.count, " of them, are not within 0 to ",
           s_.micro_batches - 1);
  }
  void message() const {
    const bool sends = in_.op == Op::SendStart || in_.op == Op::SendWait;
    const bool activation = in_.message == Message::Activation;
    const int other = in_.stage + (sends == activation ? 1 : -1);
    ensure(other >= 0 && other < s_.stages(), "stage ", in_.stage,
           " has no neighbour to exchange this ", to_string(in_.message), " with");
    const int host = s_.placement[at(in_.pipe)][at(other)];
    ensure(in_.peer == host, "its peer is worker ", in_.peer, ", but stage ", other, " of pipe ",
           in_.pipe, " is on worker ", host);
    ensure(host != worker_, "a worker does not send to itself");
  }

  const Schedule& s_;
  const Instr& in_;
  const int worker_, index_;
};

}  // namespace

std::string place_of(const Schedule& s, int worker, int index) {
  const std::vector<Instr>& body = s.programs[at(worker)].body;
  if (index >= static_cast<int>(body.size())) return concat("worker ", worker, ", end of body");
  return concat("worker ", worker, ", body[", index, "] '", to_string(body[at(index)]), "'");
}

void fail_at(const Schedule& s, int worker, int index, const std::string& what) {
  Fail(place_of(s, worker, index), ": ", what);
}

void verify_shape(const Schedule& s) {
  check_sizes(s);
  check_placement(s);
  for (int w = 0; w < s.depth; ++w)
    for (std::size_t i = 0; i < s.programs[at(w)].body.size(); ++i)
      InstrCheck(s, w, static_cast<int>(i)).run();
}

}  // namespace chimera::schedule
