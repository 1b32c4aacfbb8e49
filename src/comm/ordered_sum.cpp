#include <algorithm>

#include "chimera/base/threads.h"
#include "chimera/comm/collectives.h"

namespace chimera {
namespace {

std::span<const std::byte> bytes_of(const float* data, Index count) {
  return std::as_bytes(std::span(data, static_cast<std::size_t>(count)));
}
std::span<std::byte> writable_bytes_of(float* data, Index count) {
  return std::as_writable_bytes(std::span(data, static_cast<std::size_t>(count)));
}

std::vector<int> distinct(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

class HostAdder final : public Adder {
 public:
  // By blocks: the result may be one of the sources.
  void add(float* result, std::span<const float* const> sources, float*, Index count) override {
    constexpr Index kBlock = 1024, kGrain = 16 * kBlock;
    parallel_for(count, kGrain, [&](Index begin, Index end) {
      float sum[kBlock];
      for (Index first = begin; first < end; first += kBlock) {
        const Index length = std::min(kBlock, end - first);
        std::copy_n(sources[0] + first, length, sum);
        for (std::size_t i = 1; i < sources.size(); ++i) {
          const float* const addend = sources[i] + first;
          for (Index j = 0; j < length; ++j) sum[j] += addend[j];
        }
        std::copy_n(sum, length, result + first);
      }
    });
  }
};

}  // namespace

std::unique_ptr<Adder> make_host_adder() { return std::make_unique<HostAdder>(); }

std::vector<Index> even_borders(Index elements, Index members) {
  ENSURE(elements >= 0 && members >= 1, elements, " elements for ", members, " members");
  std::vector<Index> borders(static_cast<std::size_t>(members) + 1);
  const Index base = elements / members, longer = elements % members;
  for (Index m = 0; m <= members; ++m)
    borders[static_cast<std::size_t>(m)] = m * base + std::min(m, longer);
  return borders;
}

OrderedSum::OrderedSum(Communicator& comm, int channel, std::vector<int> contributors,
                       Index elements)
    : OrderedSum(comm, channel, contributors,
                 even_borders(elements, std::ssize(distinct(contributors)))) {}

OrderedSum::OrderedSum(Communicator& comm, int channel, std::vector<int> contributors,
                       std::vector<Index> borders)
    : comm_(comm),
      host_adder_(comm.adder() == nullptr ? make_host_adder() : nullptr),
      adder_(host_adder_ ? *host_adder_ : *comm.adder()),
      channel_(channel),
      contributors_(std::move(contributors)),
      members_(distinct(contributors_)),
      borders_(std::move(borders)) {
  ENSURE(channel >= 0 && channel < Communicator::kChannels, "there is no channel ", channel);
  const auto me = std::ranges::find(members_, comm.rank());
  ENSURE(me != members_.end(), "worker ", comm.rank(), " brings nothing to the sum on channel ",
         channel);
  me_ = static_cast<std::size_t>(me - members_.begin());
  ENSURE(borders_.size() == members_.size() + 1, borders_.size(), " borders of chunks for ",
         members_.size(), " members, who need one more than they are");
  ENSURE(borders_.front() == 0 && std::ranges::is_sorted(borders_),
         "the borders of chunks begin with ", borders_.front(), " and end with ", borders_.back(),
         "; they must begin with 0 and never descend");

  const auto own = static_cast<std::size_t>(std::ranges::count(contributors_, comm.rank()));
  const std::size_t foreign = contributors_.size() - own;
  scratch_elements_ = checked_mul(static_cast<Index>(foreign), chunk_of(me_).count);
  mine_.reserve(own);
  sources_.reserve(contributors_.size());
  requests_.reserve(own * members_.size() + foreign + 2 * members_.size());
}

OrderedSum::Chunk OrderedSum::chunk_of(std::size_t member) const {
  return {borders_[member], borders_[member + 1] - borders_[member]};
}

void OrderedSum::start(std::span<float* const> mine, float* result, float* scratch) {
  ENSURE(!started_, "a sum was started twice without a wait");
  const auto own = std::ranges::count(contributors_, comm_.rank());
  ENSURE(std::ssize(mine) == own, "worker ", comm_.rank(), " brings ", mine.size(),
         " contributions to a sum that counts on ", own);
  mine_.assign(mine.begin(), mine.end());
  result_ = result;
  started_ = true;
  sources_.clear();
  spare_ = scratch_elements_ > 0 ? scratch : nullptr;  // of the first that comes from elsewhere

  const Chunk chunk = chunk_of(me_);
  std::size_t next_own = 0;
  for (const int contributor : contributors_) {
    if (contributor == comm_.rank()) {
      sources_.push_back(mine_[next_own++] + chunk.first);
      continue;
    }
    sources_.push_back(scratch);
    if (chunk.count > 0)
      requests_.push_back(
          comm_.recv_start(contributor, channel_, writable_bytes_of(scratch, chunk.count)));
    scratch += chunk.count;
  }
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const Chunk theirs = chunk_of(m);
    if (m == me_ || theirs.count == 0) continue;
    for (const float* contribution : mine_)
      requests_.push_back(comm_.send_start(members_[m], channel_,
                                           bytes_of(contribution + theirs.first, theirs.count)));
  }
}

void OrderedSum::wait_for_own(std::string_view what) {
  ENSURE(started_, "a sum is waited for that was not started: ", what);
  wait_for_all(what);  // also the sends: what follows may overwrite mine[0]
  const Chunk own = own_chunk();
  adder_.add(result_ + own.first, sources_, spare_, own.count);
  started_ = false;
}

void OrderedSum::wait(std::string_view what) {
  wait_for_own(what);
  all_gather(result_, what);
}

void OrderedSum::reduce_scatter(std::span<float* const> mine, float* result, float* scratch,
                                std::string_view what) {
  start(mine, result, scratch);
  wait_for_own(what);
}

void OrderedSum::all_reduce(std::span<float* const> mine, float* result, float* scratch,
                            std::string_view what) {
  start(mine, result, scratch);
  wait(what);
}

void OrderedSum::all_gather(std::byte* values, Index width, std::string_view what) {
  ENSURE(!started_, "a gather within a sum that is not waited for: ", what);
  const int channel = channel_ + Communicator::kChannels;
  const auto bytes = [&](const Chunk& chunk) {
    return std::span(values + chunk.first * width, static_cast<std::size_t>(chunk.count * width));
  };
  const Chunk own = own_chunk();
  for (std::size_t m = 0; m < members_.size(); ++m) {
    if (m == me_) continue;
    const Chunk theirs = chunk_of(m);
    if (theirs.count > 0)
      requests_.push_back(comm_.recv_start(members_[m], channel, bytes(theirs)));
    if (own.count > 0) requests_.push_back(comm_.send_start(members_[m], channel, bytes(own)));
  }
  wait_for_all(what);
}

void OrderedSum::wait_for_all(std::string_view what) {
  for (const Communicator::Request request : requests_) comm_.wait(request, what);
  requests_.clear();
}

}  // namespace chimera
