#include "chimera/train/evaluate.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "chimera/base/json.h"
#include "chimera/checkpoint/checkpoint.h"
#include "chimera/data/manifest.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/worker.h"
#include "chimera/train/data_source.h"

namespace chimera::train {
namespace {

constexpr Index kTokensPerBatch =
    4096;  // of an evaluation batch: large enough for the matrix products

// A value of the configuration stored in a checkpoint, or null.
Json stored_value(const checkpoint::Checkpoint& source, const char* section, const char* key) {
  const Json config = parse_json(source.manifest().config, source.path().string());
  if (!config.contains(section) || !config[section].contains(key)) return nullptr;
  return config[section][key];
}

// Of all the splits that the shards belong to; 0 when some shard is listed in no dataset.json.
double bytes_per_token(const data::Dataset& dataset) {
  std::set<std::pair<Path, bool>> counted;  // folder, validation
  Index bytes = 0, tokens = 0;
  for (const data::Shard& shard : dataset.shards()) {
    const auto manifest = data::manifest_of(shard.path());
    if (!manifest) return 0;
    const std::string name = shard.path().filename().string();
    const bool validation =
        std::ranges::count(manifest->validation.shards, name, &data::ShardInfo::name) > 0;
    if (!counted.insert({shard.path().parent_path(), validation}).second) continue;
    const data::SplitInfo& split = validation ? manifest->validation : manifest->train;
    bytes += split.bytes;
    tokens += split.tokens;
  }
  return tokens > 0 ? static_cast<double>(bytes) / static_cast<double>(tokens) : 0;
}

}  // namespace

EvaluationReport evaluate_checkpoint(const std::string& checkpoint,
                                     const std::vector<std::string>& shards, Index sequence_length,
                                     Index samples, const std::string& device) {
  const auto source = checkpoint::Checkpoint::open(checkpoint);
  Config config;
  config.model = source.manifest().model;
  config.data.sequence_length = sequence_length;
  if (sequence_length == 0)
    if (const Json stored = stored_value(source, "data", "sequence_length");
        stored.is_number_integer())
      config.data.sequence_length = stored.get<Index>();
  const Index T = config.sequence_length();
  if (T < 1 || T > config.model.n_positions)
    FailUsage("--sequence-length is ", T, "; it must be between 1 and the model's ",
              config.model.n_positions, " positions");
  DatasetSource data(shards, T, config.model.vocab_size);
  const Index available = data.dataset().samples();
  EvaluationReport report{source.path().string(), source.manifest().step};
  report.samples = samples > 0 ? std::min(samples, available) : available;
  report.sequence_length = T;
  report.tokens = report.samples * T;
  report.tokens_in_data = data.dataset().tokens();
  if (report.samples == available) report.bytes_per_token = bytes_per_token(data.dataset());
  config.parallel.micro_batch_size = std::clamp<Index>(kTokensPerBatch / T, 1, report.samples);
  config.parallel.transport = "local";
  config.device.kind = device;
  config.device.tune = false;

  const Programs programs = build_programs(config);
  run_workers(config, [&](Communicator& comm) {
    Worker worker(
        config, programs, comm, [] { return false; }, make_backend(config, programs, comm));
    std::vector<float> values;
    worker.for_each_parameter([&](const Worker::Entry& e) {
      values.resize(static_cast<std::size_t>(e.weight.size()));
      source.read(e.parameter.name, e.weight.at(values.data()));
      worker.set_weight(e, values);
    });
    report.loss = worker.evaluate(data, report.samples).loss;
  });
  return report;
}

struct TextModel::Parts {
  std::unique_ptr<Device> device = make_host_device();
  std::unique_ptr<Ops> ops = make_cpu_ops();
  std::optional<Tokenizer> tokenizer;
  std::optional<model::Decoder> decoder;
};

TextModel::TextModel(const std::string& checkpoint, const std::string& tokenizer)
    : parts_(std::make_unique<Parts>()) {
  const auto source = checkpoint::Checkpoint::open(checkpoint);
  std::string from = tokenizer;
  if (from.empty() && std::filesystem::exists(source.path() / "tokenizer"))
    from = (source.path() / "tokenizer").string();
  if (from.empty())
    if (const Json stored = stored_value(source, "data", "tokenizer"); stored.is_string())
      from = stored.get<std::string>();
  ENSURE(!from.empty(), "the checkpoint ", source.path().string(),
         " has no tokenizer; name one with --tokenizer");
  parts_->tokenizer = Tokenizer::load(from);
  ENSURE(parts_->tokenizer->vocabulary_size() <= source.manifest().model.vocab_size,
         "the tokenizer ", from, " has ", parts_->tokenizer->vocabulary_size(), " ids, the model ",
         source.manifest().model.vocab_size, "; give the tokenizer it was trained with");
  parts_->decoder.emplace(source.manifest().model, *parts_->device, *parts_->ops);
  parts_->decoder->for_each_weight(
      [&](const nn::Parameter& p, Tensor weight) { source.read(p.name, weight); });
}

TextModel::~TextModel() = default;

Index TextModel::context() const { return parts_->decoder->capacity(); }

EndReason TextModel::continue_text(std::string_view prompt, Index tokens,
                                   const SamplingOptions& options,
                                   const std::function<void(std::string_view)>& sink) {
  return generate(*parts_->decoder, *parts_->tokenizer, prompt, tokens, options, sink);
}

}  // namespace chimera::train
