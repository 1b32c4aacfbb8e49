#include "chimera/train/held_stage.h"

#include <algorithm>
#include <cstring>

namespace chimera::train {
namespace {

float* floats(std::byte* p) { return reinterpret_cast<float*>(p); }

}  // namespace

// A collective of one stage as a job.
class HeldStage::Reduction final : public Background::Job {
 public:
  Reduction(Communicator& comm, int channel, std::vector<int> contributors,
            std::vector<Index> borders, std::string name, float* scratch_memory)
      : sum(comm, channel, std::move(contributors), std::move(borders)),
        what(std::move(name)),
        scratch(scratch_memory) {}

  void run(std::string_view name) override {
    switch (kind) {
      case Collective::AllReduce: return sum.all_reduce(mine, mine.front(), scratch, name);
      case Collective::ReduceScatter: return sum.reduce_scatter(mine, mine.front(), scratch, name);
      case Collective::AllGather: return sum.all_gather(weights, name);
    }
  }

  OrderedSum sum;
  std::string what;
  float* scratch;
  Collective kind = Collective::AllReduce;
  std::vector<float*> mine;
  float* weights = nullptr;
};

HeldStage::HeldStage(Device& device, const schedule::Group& group, const plan::HeldBytes& bytes,
                     nn::ParameterLayout params, int worker, bool counts, bool sharded)
    : device_(device),
      id_(bytes.stage),
      params_(std::move(params)),
      copy_(bytes.copy),
      versions_(bytes.versions),
      gradient_steps_(bytes.gradient_steps),
      counts_(counts),
      sharded_(sharded),
      shard_{0, bytes.copy / size_of(DType::F32)},
      weights_(device, checked_mul(bytes.copy, bytes.versions)),
      m_(device, bytes.moments),
      v_(device, bytes.moments) {
  // The padding between tensors is summed and read, too.
  for (const Buffer* buffer : {&weights_, &m_, &v_}) device.zero(buffer->data(), buffer->bytes());
  for (const schedule::Holder& holder : group.holders)
    if (holder.worker == worker)
      accumulators_.push_back({holder.pipe, holder.use,
                               Buffer(device, checked_mul(copy_, gradient_steps_)),
                               std::vector<Index>(static_cast<std::size_t>(gradient_steps_), -1)});
  sum_ = {accumulators_.front().sums.data()};
  if (!sharded_) return;
  const std::vector<Index> borders = plan::shard_borders(params_, bytes.members);
  const auto member = static_cast<std::size_t>(bytes.member);
  shard_ = {borders[member], borders[member + 1] - borders[member]};
}

HeldStage::~HeldStage() = default;

void HeldStage::join(Communicator& comm, std::vector<int> contributors, float* scratch) {
  constexpr int kChannel = 96;
  counting_rank_ = contributors.front();
  std::vector<int> members = contributors;
  std::ranges::sort(members);
  members.erase(std::ranges::unique(members).begin(), members.end());
  const Index elements = copy_ / size_of(DType::F32), count = std::ssize(members);
  reduction_ = std::make_unique<Reduction>(
      comm, kChannel, std::move(contributors),
      sharded_ ? plan::shard_borders(params_, count) : even_borders(elements, count),
      concat("the reduction of stage ", id_), scratch);
  reduction_->mine.resize(accumulators_.size());
}

const std::vector<int>& HeldStage::members() const { return reduction_->sum.members(); }

Flat HeldStage::weights(Index number) const {
  const Index place = (number % versions_ + versions_) % versions_;
  return {weights_.data() + place * copy_};
}

void HeldStage::begin_at(Index number) {
  newest_ = number;
  for (Accumulator& a : accumulators_) std::ranges::fill(a.steps, -1);
}

void HeldStage::spread_newest() {
  for (Index back = 1; back < versions_; ++back)
    std::memcpy(weights(newest_ - back).base, weights(newest_).base,
                static_cast<std::size_t>(copy_));
}

float* HeldStage::accumulate(Accumulator& a, Index step) {
  const Index place = step % gradient_steps_;
  std::byte* sums = a.sums.data() + place * copy_;
  Index& owner = a.steps[static_cast<std::size_t>(place)];
  if (owner != step) device_.zero(sums, copy_);
  owner = step;
  return floats(sums);
}

Flat HeldStage::gradients(int pipe, int use, Index step) {
  for (Accumulator& a : accumulators_)
    if (a.pipe == pipe && a.use == use) return {reinterpret_cast<std::byte*>(accumulate(a, step))};
  Fail("no gradient accumulator for stage ", id_, " of pipe ", pipe);
}

void HeldStage::start(Collective kind, Index step, Background* background) {
  ENSURE(reduction_, "stage ", id_, " has no other holder");
  reduction_->kind = kind;
  if (kind == Collective::AllGather) {
    reduction_->weights = floats(weights(step + 1).base);
  } else {
    for (std::size_t i = 0; i < accumulators_.size(); ++i)
      reduction_->mine[i] = accumulate(accumulators_[i], step);
  }
  if (background != nullptr)
    ticket_ = background->start(*reduction_, reduction_->what);
  else
    reduction_->run(reduction_->what);
}

std::optional<Background::Times> HeldStage::wait(Background* background) {
  if (background == nullptr) return std::nullopt;
  return background->wait(std::exchange(ticket_, 0));
}

void HeldStage::sum_squares(Ops& ops, Communicator& comm, int channel, Index step,
                            std::vector<double>& values) {
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
  for (const nn::Parameter& p : params_.parameters) {
    const optim::Piece piece = optim::piece_of(p, shard_);
    if (p.frozen || piece.count == 0) continue;
    double sum = 0;
    if (piece.first > 0)
      comm.recv(neighbour(-1), channel, std::as_writable_bytes(std::span(&sum, 1)),
                "a norm that another holder began");
    sum = ops.sum_squares(
        gradients.at(p.region).reshaped({p.region.size()}).rows(piece.first, piece.count), sum);
    if (piece.first + piece.count == p.region.size())
      values[static_cast<std::size_t>(p.order)] = sum;
    else
      comm.send(neighbour(1), channel, std::as_bytes(std::span(&sum, 1)),
                "a norm that another holder goes on with");
  }
}

void HeldStage::update(Ops& ops, const optim::OptimizerConfig& config, double rate, double clip,
                       Index step, Index n_layer) {
  const Flat from = weights(step), to = weights(step + 1);
  if (versions_ > 1) std::memcpy(to.base, from.base, static_cast<std::size_t>(copy_));
  sum_ = {reinterpret_cast<std::byte*>(accumulate(accumulators_.front(), step))};
  optim::adamw_step(ops, params_, to, m(), v(), sum_, config, rate, clip, step + 1, n_layer,
                    shard_);
  newest_ = step + 1;
}

}  // namespace chimera::train
