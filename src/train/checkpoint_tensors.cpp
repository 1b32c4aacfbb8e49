#include "checkpoint_tensors.h"

#include <algorithm>

#include "chimera/tensor/half.h"
#include "chimera/tensor/host_copy.h"

namespace chimera::train {
namespace {

using checkpoint::Kind;
using checkpoint::NamedTensor;

// What the optimizer keeps of a stage, as far as it is sharded: both moments, then the master where
// there is one.
std::vector<Flat> sharded_state(const StageState& held) {
  std::vector<Flat> state;
  if (held.sharded()) state = {held.m(), held.v()};
  if (held.sharded() && held.has_master()) state.push_back(held.master());
  return state;
}

Tensor widened_on_host(Worker& worker, const Tensor& weight, Region region, HostState& host) {
  HostCopy copy(worker.device(), weight);
  copy.load();
  std::vector<float>& values = host.widened.emplace_back(static_cast<std::size_t>(weight.size()));
  widen(values.data(), copy.here());
  region.offset = 0;
  return Flat{reinterpret_cast<std::byte*>(values.data())}.at(region);
}

}  // namespace

HostState gather_state(Worker& worker) {
  Communicator& comm = worker.comm();
  HostState whole;
  for (auto& [id, held] : worker.held()) {
    if (!held.sharded()) continue;
    const std::vector<Flat> state = sharded_state(held);
    const auto own = [&, count = held.shard().count](Flat part) {
      HostCopy copy(worker.device(), Tensor(part.base, DType::F32, {count}));
      copy.load();
      return copy;
    };
    if (!held.counts()) {
      for (const Flat& part : state)
        comm.send(held.counting_rank(), kCheckpointChannel, bytes_of(own(part).here()),
                  "a shard of the optimizer's state");
      continue;
    }
    const Index total = held.params().layout.bytes() / size_of(DType::F32);
    auto& all = whole.sharded[id];
    all.assign(state.size(), std::vector<float>(static_cast<std::size_t>(total)));
    const std::vector<int>& members = held.members();
    const std::vector<Index> borders = plan::shard_borders(held.params(), std::ssize(members));
    for (std::size_t i = 0; i < members.size(); ++i) {
      const optim::Shard shard{borders[i], borders[i + 1] - borders[i]};
      for (std::size_t part = 0; part < state.size(); ++part) {
        const Tensor into(all[part].data() + shard.first, DType::F32, {shard.count});
        if (members[i] == comm.rank())
          std::ranges::copy(bytes_of(own(state[part]).here()), bytes_of(into).begin());
        else
          comm.recv(members[i], kCheckpointChannel, bytes_of(into),
                    "a shard of the optimizer's state");
      }
    }
  }
  return whole;
}

std::string version_name(Index back, const std::string& name) {
  return concat("version.", back, ".", name);
}

std::vector<NamedTensor> counted_tensors(Worker& worker, HostState& host) {
  std::vector<NamedTensor> tensors;
  for (auto& [id, held] : worker.held()) {
    if (!held.counts()) continue;
    const bool narrow = held.has_master();
    Device* const device = &worker.device();
    const auto in_shards = [&, stage = id](std::size_t part) {
      return Flat{reinterpret_cast<std::byte*>(host.sharded.at(stage).at(part).data())};
    };
    Device* const state_device = held.sharded() ? nullptr : device;
    const Flat m = held.sharded() ? in_shards(0) : held.m(),
               v = held.sharded() ? in_shards(1) : held.v();
    const Flat weights = !narrow          ? held.weights(held.newest())
                         : held.sharded() ? in_shards(2)
                                          : held.master();
    for (const nn::Parameter& p : held.params().parameters) {
      tensors.push_back(
          {p.name, weights.at(p.region), Kind::Weight, narrow ? state_device : device});
      tensors.push_back({"adam.m." + p.name, m.at(p.region), Kind::Moment, state_device});
      tensors.push_back({"adam.v." + p.name, v.at(p.region), Kind::Moment, state_device});
      for (Index back = 1; back < held.versions(); ++back) {
        const Tensor old = held.weights(held.newest() - back).at(p.region);
        const Tensor wide = narrow ? widened_on_host(worker, old, p.region, host) : old;
        tensors.push_back(
            {version_name(back, p.name), wide, Kind::Moment, narrow ? nullptr : device});
      }
    }
  }
  return tensors;
}

}  // namespace chimera::train
