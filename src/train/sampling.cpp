#include "sampling.h"

#include <algorithm>

#include "chimera/runtime/worker.h"
#include "chimera/tensor/half.h"
#include "chimera/tensor/host_copy.h"
#include "chimera/train/generate.h"

namespace chimera::train {
namespace {

constexpr int kWeightsChannel = 99;
constexpr Index kSampleTokens = 100;

std::vector<float> in_fp32(Worker& worker, const Tensor& weight) {
  HostCopy copy(worker.device(), weight);
  copy.load();
  std::vector<float> values(static_cast<std::size_t>(weight.size()));
  widen(values.data(), copy.here());
  return values;
}

// Every parameter, from the worker that counts it, into the decoder of rank 0.
void gather_weights(Worker& worker, int holders, model::Decoder* decoder) {
  Communicator& comm = worker.comm();
  std::vector<std::pair<std::int32_t, Tensor>> mine;
  worker.for_each_parameter([&](const Worker::Entry& e) {
    if (e.counts) mine.emplace_back(e.parameter.order, e.weight);
  });
  if (comm.rank() != 0) {
    if (comm.rank() >= holders) return;
    std::int64_t count = static_cast<std::int64_t>(mine.size());
    comm.send(0, kWeightsChannel, std::as_bytes(std::span(&count, 1)), "the number of weights");
    for (auto& [order, weight] : mine) {
      comm.send(0, kWeightsChannel, std::as_bytes(std::span(&order, 1)), "the place of a weight");
      const std::vector<float> values = in_fp32(worker, weight);
      comm.send(0, kWeightsChannel, std::as_bytes(std::span(values)), "a weight");
    }
    return;
  }
  std::map<std::int32_t, Tensor> into;
  decoder->for_each_weight([&](const nn::Parameter& p, Tensor weight) { into[p.order] = weight; });
  for (const auto& [order, weight] : mine)
    std::ranges::copy(in_fp32(worker, weight), into.at(order).f32());
  for (int rank = 1; rank < holders; ++rank) {
    std::int64_t count = 0;
    comm.recv(rank, kWeightsChannel, std::as_writable_bytes(std::span(&count, 1)),
              "the number of weights");
    for (std::int64_t i = 0; i < count; ++i) {
      std::int32_t order = 0;
      comm.recv(rank, kWeightsChannel, std::as_writable_bytes(std::span(&order, 1)),
                "the place of a weight");
      comm.recv(rank, kWeightsChannel, bytes_of(into.at(order)), "a weight");
    }
  }
}

}  // namespace

std::string sample_text(Worker& worker, const Config& config, std::uint64_t seed) {
  const int holders = config.parallel.request.depth;
  if (worker.comm().rank() != 0) {
    gather_weights(worker, holders, nullptr);
    return "";
  }
  const std::unique_ptr<Device> device = make_host_device();
  // In host memory: a second copy of the weights may not fit on a GPU.
  const std::unique_ptr<Ops> own = worker.backend().on_gpu() ? make_cpu_ops() : nullptr;
  model::Decoder decoder(config.model, *device, own ? *own : worker.ops());
  gather_weights(worker, holders, &decoder);
  const auto tokenizer = Tokenizer::load(config.data.tokenizer);
  std::string text;
  generate(decoder, tokenizer, "", std::min(kSampleTokens, config.model.n_positions - 1),
           {.seed = seed}, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace chimera::train
