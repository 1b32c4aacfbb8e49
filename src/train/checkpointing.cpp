#include "chimera/train/checkpointing.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint_tensors.h"
#include "chimera/base/json.h"
#include "chimera/base/log.h"
#include "chimera/checkpoint/checkpoint.h"
#include "chimera/comm/collectives.h"
#include "chimera/runtime/worker.h"
#include "chimera/setup/config_fields.h"
#include "chimera/setup/config_file.h"
#include "chimera/tensor/half.h"
#include "chimera/tensor/host_copy.h"

namespace chimera::train {
namespace {

using checkpoint::Checkpoint;
using checkpoint::CheckpointWriter;

constexpr int kChannel = kCheckpointChannel;

// True on every worker when `work` succeeded on all; each failure is logged where it happened.
template <class Work>
bool together(Communicator& comm, const char* what, const Work& work) {
  double failed = 0;
  try {
    work();
  } catch (const Aborted&) {
    throw;
  } catch (const std::exception& e) {
    log_error(what, ": ", e.what());
    failed = 1;
  }
  sum_over_ranks(comm, kChannel, std::span(&failed, 1), what);
  return failed == 0;
}

// From a checkpoint, or a file of weights, into memory of the worker's device.
template <class Source>
void read_tensor(const Source& source, const std::string& name, Device& device,
                 const Tensor& destination) {
  HostCopy copy(device, destination);
  source.read(name, copy.here());
  copy.store();
}

// The whole tensor in host memory, in fp32.
template <class Source>
std::vector<float> read_whole(const Source& source, const std::string& name,
                              const nn::Parameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.region.size()));
  Region region = parameter.region;
  region.offset = 0;
  source.read(name, Flat{reinterpret_cast<std::byte*>(values.data())}.at(region));
  return values;
}

// A whole tensor of the checkpoint, of which this worker keeps a range.
void read_range(const Checkpoint& source, const std::string& name, const Worker::Entry& e,
                Device& device, const Tensor& destination) {
  Region region = e.parameter.region;
  region.offset = 0;
  const auto in_shape = [&](void* memory) {
    return Flat{static_cast<std::byte*>(memory)}.at(region);
  };
  if (e.range.count == region.size())
    return read_tensor(source, name, device, in_shape(destination.raw()));
  if (e.range.count == 0) return;
  const std::vector<float> memory = read_whole(source, name, e.parameter);
  device.copy_in(destination.raw(), memory.data() + e.range.first, destination.bytes());
}

template <class Source>
void read_weight(Worker& worker, const Source& source, const Worker::Entry& e) {
  if (e.weight.type() == DType::F32)
    read_tensor(source, e.parameter.name, worker.device(), e.weight);
  else
    worker.set_weight(e, read_whole(source, e.parameter.name, e.parameter));
}

// Older weight versions, where the checkpoint has all that this layout keeps.
void read_versions(Worker& worker, const Checkpoint& source) {
  bool known = true;
  worker.for_each_parameter([&](const Worker::Entry& e) {
    for (Index back = 1; back < e.versions; ++back)
      known = known && source.has(version_name(back, e.parameter.name));
  });
  if (!known) return;
  worker.for_each_parameter([&](const Worker::Entry& e) {
    for (Index back = 1; back < e.versions; ++back) {
      const std::string name = version_name(back, e.parameter.name);
      if (e.weight.type() == DType::F32) {
        read_tensor(source, name, worker.device(), e.version(back));
        continue;
      }
      HostCopy narrow(worker.device(), e.version(back));
      round_into(narrow.here(), read_whole(source, name, e.parameter).data());
      narrow.store();
    }
  });
  worker.keep_versions();
}

template <class Source>
void read_weights_from(Worker& worker, const Source& source) {
  worker.for_each_parameter([&](const Worker::Entry& e) { read_weight(worker, source, e); });
}

void read_weights(Worker& worker, const std::string& from) {
  const Path path(from);
  const Path file = std::filesystem::is_directory(path) ? path / "model.safetensors" : path;
  if (std::filesystem::exists(path / "manifest.json") || !std::filesystem::exists(file)) {
    const Checkpoint source = Checkpoint::open(path);
    read_weights_from(worker, source);
    return;
  }
  read_weights_from(worker, checkpoint::SafetensorsFile(file));
}

void check_same_model(const model::ModelConfig& stored, const model::ModelConfig& now,
                      const std::string& where) {
  model::ModelConfig a = stored, b = now;
  const auto text = [](const model::ModelKey& key) {
    return std::visit([](const auto* value) { return concat(*value); }, key.value);
  };
  const std::vector<model::ModelKey> before = model::model_keys(a), keys = model::model_keys(b);
  for (std::size_t i = 0; i < keys.size(); ++i)
    ENSURE(!keys[i].shape || text(before[i]) == text(keys[i]), "the checkpoint ", where,
           " has model.", keys[i].name, " ", text(before[i]), ", the configuration ", text(keys[i]),
           "; use the checkpoint's value, another checkpoint.directory, or --resume never");
}

std::map<std::string, std::string> environment_of(const Worker& worker,
                                                  const RunIdentity& identity) {
  auto environment = identity.environment;
  environment["device"] = worker.backend().identity;
  return environment;
}

void warn_of_differences(const checkpoint::Manifest& stored, const Config& config,
                         const RunIdentity& now,
                         const std::map<std::string, std::string>& environment) {
  // What decides which samples and masks come next.
  const Json before_run = parse_json(stored.config, "the checkpoint's configuration");
  const Json this_run = config_to_json(config);
  std::string changed;
  Config copy = config;
  for (const Field& field : config_fields(copy)) {
    const Json::json_pointer place(field.pointer());
    if (!field.warn_on_resume || !before_run.contains(place)) continue;
    const Json &a = before_run[place], &b = this_run[place];
    if (a != b) changed += concat(" ", field.path, " ", a.dump(), " -> ", b.dump(), ";");
  }
  if (before_run.contains("parallel")) {
    const Json& p = before_run["parallel"];
    const Index batch = p.value("micro_batch_size", Index{0}) * p.value("micro_batches", Index{0}) *
                        p.value("width", Index{0});
    if (batch != config.batch())
      changed += concat(" the batch ", batch, " -> ", config.batch(), ";");
  }
  if (!changed.empty())
    log_warning("changed since the checkpoint:", changed,
                " from here on this is another training than the uninterrupted one");
  std::string differences;
  for (const auto& [key, value] : environment) {
    const auto found = stored.environment.find(key);
    const char* const missing = key == "device" ? "cpu" : "unknown";  // once there was no other
    const std::string before = found == stored.environment.end() ? missing : found->second;
    if (before != value)
      differences += concat(differences.empty() ? "" : "; ", key, " ", before, " -> ", value);
  }
  if (!differences.empty())
    log_warning("resumed under another environment: losses agree to rounding, not bitwise (",
                differences, ")");
  if (stored.data_fingerprint != now.data_fingerprint)
    log_warning(
        "the training data are not those of the checkpoint: from here on other samples are seen");
}

// What a worker knows beside its tensors. Skipped steps are not counted by Adam, whatever the
// precision that goes on.
Json state_to_json(const Worker& worker, const Config& config) {
  const optim::LossScale::State s = worker.loss_scale().state();
  Json state = Json::object();
  if (config.precision.compute == "fp16" || s.skipped > 0)
    state["loss_scale"] = {
        {"scale", s.scale}, {"good_steps", s.good_steps}, {"skipped_steps", s.skipped}};
  return state;
}

void restore_state(Worker& worker, const Json& state, Index step) {
  const auto found = state.find("loss_scale");
  if (found == state.end()) return;
  const auto part = [&](const char* key, bool whole) {
    const bool there = found->is_object() && found->contains(key) &&
                       (whole ? (*found)[key].is_number_integer() : (*found)[key].is_number());
    ENSURE(there, "the checkpoint's state has no ", whole ? "whole " : "", "number loss_scale.",
           key);
    return (*found)[key];
  };
  const optim::LossScale::State stored{.scale = part("scale", false).get<double>(),
                                       .good_steps = part("good_steps", true).get<Index>(),
                                       .skipped = part("skipped_steps", true).get<Index>()};
  ENSURE(stored.skipped <= step, "the checkpoint's state has ", stored.skipped,
         " skipped steps, its manifest ", step, " steps");
  worker.restore_loss_scale(stored);
}

// The checkpoint to resume from, chosen by rank 0; empty for none.
std::string choose(const Config& config, const std::string& resume) {
  if (resume == "never") return "";
  if (resume != "auto") {
    const Checkpoint found = Checkpoint::open(resume);
    found.verify();
    return found.path().string();
  }
  if (config.checkpoint.directory.empty()) return "";
  checkpoint::Newest newest = checkpoint::newest_valid(config.checkpoint.directory);
  for (const std::string& message : newest.passed_over)
    log_warning("passed over a damaged checkpoint: ", message);
  if (newest.checkpoint) return newest.checkpoint->path().string();
  ENSURE(newest.passed_over.empty(), "all checkpoints in ", config.checkpoint.directory,
         " are damaged (named above); nothing was changed: repair one, or name another "
         "checkpoint.directory to start anew (train.init_from can take weights that are whole)");
  return "";
}

}  // namespace

std::string broadcast_text(Communicator& comm, const std::string& text, std::string_view what) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(comm, kChannel, 0, std::as_writable_bytes(std::span(&length, 1)), what);
  std::string out = text;
  out.resize(static_cast<std::size_t>(length));
  broadcast(comm, kChannel, 0, std::as_writable_bytes(std::span(out)), what);
  return out;
}

bool save_checkpoint(Worker& worker, const Config& config, const RunIdentity& identity, Index step,
                     Index consumed_samples, const std::string& run_id,
                     CheckpointWriter::Hook hook) {
  Communicator& comm = worker.comm();
  CheckpointWriter writer(config.checkpoint.directory, step, run_id, std::move(hook));
  const int writers = config.parallel.request.depth;
  const bool lead = comm.rank() == 0, writes = comm.rank() < writers;
  const char* what = "writing the checkpoint";
  Index copies = 3;  // weights and two moments
  for (const auto& [id, held] : worker.held()) copies = std::max(copies, held.versions() + 2);
  const Index bytes = copies * model::parameter_count(config.model) * size_of(DType::F32);
  std::string record;
  bool fine = together(comm, what, [&] {
    if (lead) writer.begin(bytes, writers);
  });
  if (fine) {
    HostState host = gather_state(worker);
    fine = together(comm, what, [&] {
      if (writes) record = writer.write_shard(comm.rank(), writers, counted_tensors(worker, host));
    });
  }
  if (fine) {
    std::vector<std::string> records;
    if (writes) records = gather_texts(comm, kChannel, writers, record, "a checkpoint's record");
    fine = together(comm, what, [&] {
      if (!lead) return;
      checkpoint::Manifest manifest;
      manifest.step = step;
      manifest.consumed_samples = consumed_samples;
      manifest.model = config.model;
      manifest.end_of_text = identity.end_of_text;
      manifest.config = config_to_json(config).dump();
      manifest.state = state_to_json(worker, config).dump();
      manifest.environment = environment_of(worker, identity);
      manifest.data_fingerprint = identity.data_fingerprint;
      manifest.tokenizer_fingerprint = identity.tokenizer_fingerprint;
      writer.commit(std::move(manifest), records, identity.tokenizer_files);
      writer.retire(config.checkpoint.keep);
    });
  }
  // Nobody goes on before it is removed: the failure may end the job.
  if (!fine)
    together(comm, what, [&] {
      if (lead) writer.abandon();
    });
  return fine;
}

Resumed load_or_initialize(Worker& worker, const Config& config, const RunIdentity& identity,
                           const std::string& resume) {
  Communicator& comm = worker.comm();
  const std::string from = broadcast_text(comm, comm.rank() == 0 ? choose(config, resume) : "",
                                          "the choice of a checkpoint");
  if (from.empty()) {
    worker.initialize_weights();
    if (!config.train.init_from.empty()) read_weights(worker, config.train.init_from);
    return {};
  }
  const Checkpoint source = Checkpoint::open(from);
  const checkpoint::Manifest& manifest = source.manifest();
  check_same_model(manifest.model, config.model, from);
  worker.begin_at(manifest.step);
  restore_state(worker, parse_json(manifest.state, from + ", \"state\""), manifest.step);
  worker.for_each_parameter([&](const Worker::Entry& e) {
    read_weight(worker, source, e);
    read_range(source, "adam.m." + e.parameter.name, e, worker.device(), e.m);
    read_range(source, "adam.v." + e.parameter.name, e, worker.device(), e.v);
  });
  read_versions(worker, source);
  if (comm.rank() == 0)
    warn_of_differences(manifest, config, identity, environment_of(worker, identity));
  return {manifest.step, manifest.consumed_samples, from};
}

}  // namespace chimera::train
