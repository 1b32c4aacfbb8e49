#include "chimera/runtime/stage_state.h"

#include <algorithm>

namespace chimera {
namespace {

float* floats(std::byte* p) { return reinterpret_cast<float*>(p); }

}  // namespace

// A collective of one stage as a job.
class StageState::Reduction final : public Background::Job {
 public:
  Reduction(Device& on, Communicator& comm, int channel, std::vector<int> contributors,
            std::vector<Index> borders, std::string name, float* scratch_memory)
      : device(on),
        sum(comm, channel, std::move(contributors), std::move(borders)),
        what(std::move(name)),
        scratch(scratch_memory),
        ready(on.make_event()),
        done(on.make_event()) {}

  void run(std::string_view name) override {
    device.await(*ready, Stream::Reductions);
    switch (kind) {
      case Collective::AllReduce: sum.all_reduce(mine, mine.front(), scratch, name); break;
      case Collective::ReduceScatter: sum.reduce_scatter(mine, mine.front(), scratch, name); break;
      case Collective::AllGather: sum.all_gather(weights.base, size_of(weights.type), name); break;
    }
    device.record(*done, Stream::Reductions);
  }

  Device& device;
  OrderedSum sum;
  std::string what;
  float* scratch;
  Collective kind = Collective::AllReduce;
  std::vector<float*> mine;
  Flat weights;
  std::unique_ptr<Event> ready, done;  // what is summed is there; the result is
};

StageState::StageState(Device& device, const schedule::Group& group,
                       const plan::StageStateBytes& bytes, nn::ParameterLayout params, int worker,
                       bool counts, bool sharded)
    : device_(device),
      id_(bytes.stage),
      params_(std::move(params)),
      type_(bytes.type),
      copy_(bytes.copy),
      weight_bytes_(bytes.weights()),
      versions_(bytes.versions),
      gradient_steps_(bytes.gradient_steps),
      counts_(counts),
      sharded_(sharded),
      shard_{0, bytes.copy / size_of(DType::F32)},
      weights_(device, checked_mul(weight_bytes_, bytes.versions)),
      m_(device, bytes.moments),
      v_(device, bytes.moments) {
  if (has_master()) master_ = Buffer(device, bytes.master());
  // The padding between tensors is summed and read, too.
  for (const Buffer* buffer : {&weights_, &m_, &v_, &master_})
    if (buffer->bytes() > 0) device.zero(buffer->data(), buffer->bytes());
  for (const schedule::Holder& holder : group.holders)
    if (holder.worker == worker)
      accumulators_.push_back({holder.pipe, holder.use,
                               Buffer(device, checked_mul(copy_, gradient_steps_)),
                               std::vector<Index>(static_cast<std::size_t>(gradient_steps_), -1)});
  sum_ = {accumulators_.front().sums.data()};
  normed_.reserve(params_.parameters.size());
  if (!sharded_) return;
  const std::vector<Index> borders = plan::shard_borders(params_, bytes.members);
  const auto member = static_cast<std::size_t>(bytes.member);
  shard_ = {borders[member], borders[member + 1] - borders[member]};
}

StageState::~StageState() = default;

void StageState::join(Communicator& comm, std::vector<int> contributors, float* scratch) {
  constexpr int kChannel = 96;
  counting_rank_ = contributors.front();
  std::vector<int> members = contributors;
  std::ranges::sort(members);
  members.erase(std::ranges::unique(members).begin(), members.end());
  const Index elements = copy_ / size_of(DType::F32), count = std::ssize(members);
  reduction_ = std::make_unique<Reduction>(
      device_, comm, kChannel, std::move(contributors),
      sharded_ ? plan::shard_borders(params_, count) : even_borders(elements, count),
      concat("the reduction of stage ", id_), scratch);
  reduction_->mine.resize(accumulators_.size());
}

const std::vector<int>& StageState::members() const { return reduction_->sum.members(); }

Flat StageState::weights(Index number) const {
  const Index place = (number % versions_ + versions_) % versions_;
  return {weights_.data() + place * weight_bytes_, type_};
}

void StageState::begin_at(Index number) {
  newest_ = number;
  for (Accumulator& a : accumulators_) std::ranges::fill(a.steps, -1);
}

void StageState::spread_newest() {
  for (Index back = 1; back < versions_; ++back)
    device_.copy(weights(newest_ - back).base, weights(newest_).base, weight_bytes_);
}

float* StageState::accumulate(Accumulator& a, Index step) {
  const Index place = step % gradient_steps_;
  std::byte* sums = a.sums.data() + place * copy_;
  Index& owner = a.steps[static_cast<std::size_t>(place)];
  if (owner != step) device_.zero(sums, copy_);
  owner = step;
  return floats(sums);
}

Flat StageState::gradients(int pipe, int use, Index step) {
  for (Accumulator& a : accumulators_)
    if (a.pipe == pipe && a.use == use) return {reinterpret_cast<std::byte*>(accumulate(a, step))};
  Fail("no gradient accumulator for stage ", id_, " of pipe ", pipe);
}

void StageState::start(Collective kind, Index step, Background* background) {
  ENSURE(reduction_, "stage ", id_, " has no other holder");
  reduction_->kind = kind;
  if (kind == Collective::AllGather) {
    reduction_->weights = weights(step + 1);
  } else {
    for (std::size_t i = 0; i < accumulators_.size(); ++i)
      reduction_->mine[i] = accumulate(accumulators_[i], step);
  }
  device_.record(*reduction_->ready, Stream::Compute);
  if (background != nullptr)
    ticket_ = background->start(*reduction_, reduction_->what);
  else
    reduction_->run(reduction_->what);
}

std::optional<Background::Times> StageState::wait(Background* background) {
  std::optional<Background::Times> times;
  if (background != nullptr) times = background->wait(std::exchange(ticket_, 0));
  device_.await(*reduction_->done, Stream::Compute);
  return times;
}

void StageState::sum_squares(Ops& ops, Communicator& comm, int channel, Index step,
                             std::vector<double>& values, std::string_view what) {
  const Flat gradients{reinterpret_cast<std::byte*>(accumulate(accumulators_.front(), step))};
  sum_ = gradients;
  if (!counts_ && !sharded_) return;
  const auto neighbour = [&](int direction) {  // past those whose shard is empty
    const OrderedSum& all = reduction_->sum;
    std::size_t member = all.member();
    do member += static_cast<std::size_t>(direction);
    while (all.chunk_of(member).count == 0);
    return all.members()[member];
  };
  const auto part = [&](const nn::Parameter& p, const optim::ShardRange& range) {
    return gradients.at(p.region).reshaped({p.region.size()}).rows(range.first, range.count);
  };
  const auto finish = [&](const nn::Parameter& p, const optim::ShardRange& range,
                          const double& sum) {
    if (range.first + range.count == p.region.size())
      values[static_cast<std::size_t>(p.order)] = sum;
    else
      comm.send(neighbour(1), channel, std::as_bytes(std::span(&sum, 1)), what);
  };
  // All that begin here at once; then the one, if any, that another holder began.
  norms_.assign(params_.parameters.size(), 0.0);
  normed_.clear();
  const auto begins_here = [&](const nn::Parameter& p, const optim::ShardRange& range) {
    return !p.frozen && range.count > 0 && range.first == 0;
  };
  for (const nn::Parameter& p : params_.parameters)
    if (const auto range = optim::range_in_shard(p, shard_); begins_here(p, range))
      normed_.push_back(part(p, range));
  ops.sum_squares(std::span(norms_).first(normed_.size()), normed_);
  std::size_t next = 0;
  for (const nn::Parameter& p : params_.parameters)
    if (const auto range = optim::range_in_shard(p, shard_); begins_here(p, range))
      finish(p, range, norms_[next++]);
  for (const nn::Parameter& p : params_.parameters) {
    const optim::ShardRange range = optim::range_in_shard(p, shard_);
    if (p.frozen || range.count == 0 || range.first == 0) continue;
    double sum = 0;
    comm.recv(neighbour(-1), channel, std::as_writable_bytes(std::span(&sum, 1)), what);
    finish(p, range, ops.sum_squares(part(p, range), sum));
  }
}

Flat StageState::begin_update(Index step) {
  const Flat from = weights(step), to = weights(step + 1);
  if (versions_ > 1) device_.copy(to.base, from.base, weight_bytes_);
  sum_ = {reinterpret_cast<std::byte*>(accumulate(accumulators_.front(), step))};
  newest_ = step + 1;
  return to;
}

void StageState::update(Ops& ops, const optim::OptimizerConfig& config,
                        const optim::StepNumbers& numbers, Index step, Index n_layer) {
  const Flat to = begin_update(step);
  optim::adamw_step(ops, update_, params_, {to, sum_, m(), v(), master()}, config, numbers, n_layer,
                    shard_);
}

void StageState::skip_update(Index step) { begin_update(step); }

}  // namespace chimera
