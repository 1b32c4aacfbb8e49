#include "chimera/train/data_source.h"

#include <cmath>

#include "chimera/data/manifest.h"
#include "chimera/runtime/launch.h"
#include "chimera/setup/build_identity.h"
#include "chimera/tokenizer/tokenizer.h"

namespace chimera::train {
namespace {

std::vector<data::Mixture::Source> open_sources(const Config& config) {
  std::vector<data::Mixture::Source> sources;
  for (const DataSource& source : config.data.train)
    sources.push_back(
        {data::Dataset(source.files, config.sequence_length(), config.model.vocab_size),
         source.weight});
  return sources;
}

// The tokenizer that made a data set, where its dataset.json tells, must be the run's and fit the
// model.
void check_manifest(const data::Dataset& dataset, const Config& config,
                    const std::string& tokenizer_fingerprint) {
  for (const data::Shard& shard : dataset.shards()) {
    const auto manifest = data::manifest_of(shard.path());
    if (!manifest) continue;
    ENSURE(manifest->vocabulary_size <= config.model.vocab_size, shard.path().string(),
           " was made with a vocabulary of ", manifest->vocabulary_size,
           " ids; model.vocab_size is ", config.model.vocab_size, ": set it to ",
           manifest->vocabulary_size);
    ENSURE(
        tokenizer_fingerprint.empty() || manifest->tokenizer_fingerprint == tokenizer_fingerprint,
        shard.path().string(), " was made by another tokenizer than data.tokenizer ",
        config.data.tokenizer, "; name the one beside the shards, or prepare the data again");
  }
}

}  // namespace

MixtureSource::MixtureSource(const Config& config)
    : mixture_(open_sources(config), static_cast<std::uint64_t>(config.data.seed)) {}

RunInputs open_run_inputs(const Config& config) {
  RunInputs inputs;
  RunIdentity& identity = inputs.identity;
  if (!config.data.tokenizer.empty()) {
    const Tokenizer tokenizer = Tokenizer::load(config.data.tokenizer);
    ENSURE(tokenizer.vocabulary_size() <= config.model.vocab_size, "data.tokenizer ",
           config.data.tokenizer, " has ", tokenizer.vocabulary_size(),
           " ids; model.vocab_size is ", config.model.vocab_size, ": set it to ",
           tokenizer.vocabulary_size());
    identity.tokenizer_fingerprint = tokenizer.fingerprint();
    if (const auto end = tokenizer.end_of_text()) identity.end_of_text = *end;
    for (const auto& [name, content] : tokenizer.files())
      identity.tokenizer_files.push_back({"tokenizer/" + name, content});
  }
  const MixtureSource training(config);
  for (Index i = 0; i < training.mixture().sources(); ++i)
    check_manifest(training.mixture().source(i), config, identity.tokenizer_fingerprint);
  identity.data_fingerprint = training.mixture().fingerprint();
  const Index samples = training.mixture().samples(), needed = config.train.steps * config.batch();
  inputs.data_summary =
      concat("data: ", training.mixture().tokens(), " tokens, ", samples, " samples; ", needed,
             " are used, ",
             std::round(1000 * static_cast<double>(needed) / static_cast<double>(samples)) / 1000,
             " epochs\n");
  if (!config.data.validation.empty())
    check_manifest(
        DatasetSource(config.data.validation, config.sequence_length(), config.model.vocab_size)
            .dataset(),
        config, identity.tokenizer_fingerprint);

  inputs.training = [&config] { return std::make_unique<MixtureSource>(config); };
  inputs.validation = [&config]() -> std::unique_ptr<SampleSource> {
    if (config.data.validation.empty()) return nullptr;
    return std::make_unique<DatasetSource>(config.data.validation, config.sequence_length(),
                                           config.model.vocab_size);
  };
  const ParallelConfig& p = config.parallel;
  identity.environment = build_environment();
  identity.environment["layout"] = concat(
      p.request.schedule, " D=", p.request.depth, " W=", p.request.width,
      " f=", p.request.pipeline_pairs, " N=", p.request.micro_batches, " B=", p.micro_batch_size);
  identity.environment["threads"] =
      std::to_string(threads_per_worker(config, choose_transport(config)));
  return inputs;
}

}  // namespace chimera::train
