// The table of every configuration key.
#include "chimera/setup/config_fields.h"

#include <concepts>

#include <algorithm>

#include "chimera/schedule/generate.h"

namespace chimera {
namespace {

constexpr double kMany = 1e15;  // exact as a double, far beyond any count in use

class Table {
 public:
  std::vector<Field> fields;

  void section(std::string name) { section_ = std::move(name) + "."; }
  template <std::signed_integral T>
  Field& count(const char* key, T& target, double least, double most, std::string meaning) {
    return add({section_ + key, &target, least, most, {}, std::move(meaning)});
  }
  Field& number(const char* key, double& target, double least, double most, std::string meaning) {
    return add({section_ + key, &target, least, most, {}, std::move(meaning)});
  }
  Field& flag(const char* key, bool& target, std::string meaning) {
    return add({section_ + key, &target, 0, 0, {}, std::move(meaning)});
  }
  Field& text(const char* key, std::string& target, std::string meaning,
              std::vector<std::string> choices = {}) {
    return add({section_ + key, &target, 0, 0, std::move(choices), std::move(meaning)});
  }
  template <class T>
  Field& list(const char* key, std::vector<T>& target, std::string meaning) {
    return add({section_ + key, &target, 0, kMany, {}, std::move(meaning)});
  }
  Field& add(Field field) { return fields.emplace_back(std::move(field)); }

 private:
  std::string section_;
};

void model_fields(Table& t, Config& c) {
  std::vector<std::string> names;
  for (const model::Preset& preset : model::presets()) names.push_back(preset.name);
  t.section("model");
  t.text("preset", c.preset, "a published shape; keys beside it override it", names).empty = "null";
  for (const model::ModelKey& key : model::model_keys(c.model)) {
    Field& field = t.add({"model." + key.name, static_cast<Index*>(nullptr), key.least, key.most,
                          key.choices, key.meaning});
    std::visit([&](auto* value) { field.target = value; }, key.value);
    if (key.required) field.required = "set it, or model.preset";
  }
}

void data_fields(Table& t, Config& c) {
  t.section("data");
  t.list("train", c.data.train,
         "token shards: paths or patterns, or [{\"files\": [...], \"weight\": w}, ...]")
      .required = "name token shards made by `chimera data prepare`";
  t.list("validation", c.data.validation, "token shards for evaluation");
  t.text("tokenizer", c.data.tokenizer, "folder or .tiktoken file; copied into checkpoints");
  t.count("sequence_length", c.data.sequence_length, 0, 1 << 24,
          "tokens per sample; 0: n_positions")
      .warn_on_resume = true;
  t.count("seed", c.data.seed, 0, kMany, "order of the samples").warn_on_resume = true;
}

void parallel_fields(Table& t, Config& c) {
  ParallelConfig& p = c.parallel;
  std::vector<std::string> schedules;
  for (const schedule::ScheduleInfo& known : schedule::known_schedules())
    schedules.push_back(known.name);
  using schedule::schedules_with, schedule::Traits;
  const std::string pairs = schedules_with(&Traits::takes_pipeline_pairs),
                    scaling = schedules_with(&Traits::takes_scaling),
                    split = schedules_with(&Traits::takes_split_backward),
                    overlap = schedules_with(&Traits::takes_overlap_steps),
                    chunks = schedules_with(&Traits::takes_virtual_stages),
                    searched = schedules_with(&Traits::split);
  t.section("parallel");
  t.text("schedule", p.request.schedule, "pipeline schedule", schedules);
  t.count("depth", p.request.depth, 1, 1024, "D: pipeline stages");
  t.count("width", p.request.width, 1, 65536, "W: replicas of the pipeline group; workers = D * W");
  t.count("pipeline_pairs", p.request.pipeline_pairs, 1, 24,
          concat("f: pipelines down and as many up (", pairs, ")"));
  t.text("scaling", p.request.scaling,
         concat("N > D: how units of D micro-batches are joined (", scaling, ")"),
         {"direct", "doubling", "halving"});
  t.count("micro_batches", p.request.micro_batches, 1, 1 << 20, "N: per pipeline group and step");
  t.count("micro_batch_size", p.micro_batch_size, 1, 1 << 20, "B: sequences per micro-batch");
  t.text("gradient_sync", p.request.gradient_sync,
         "when gradients are summed: lazy, after all compute; eager, when they are complete; "
         "eager-opt, then where a bubble follows",
         {"lazy", "eager", "eager-opt"});
  t.flag("split_backward", p.request.split_backward,
         concat("input and weight gradients as two instructions (", split, "; ", searched,
                " always)"));
  t.flag("overlap_steps", p.request.overlap_steps,
         concat("no barrier between steps (", overlap, " with split_backward; grad_clip 0)"));
  t.count("virtual_stages", p.request.virtual_stages, 1, 1024,
          concat("v: stages per worker (", chunks, ")"));
  t.count("zero_stage", p.request.zero_stage, 0, 1,
          "1: optimizer state sharded over a stage's holders");
  t.text("recompute", p.recompute,
         "activations computed again in backward: none; selective, norms and GELU; full, all of a "
         "stage",
         {"none", "selective", "full"});
  t.list("stage_layers", p.stage_layers,
         "\"auto\", equal times by operation counts; or the number of layers of each of the v * D "
         "stages")
      .empty = "\"auto\"";
  t.text("calibration", p.calibration,
         concat("measured times (chimera bench step --save): for stage_layers auto and for "
                "schedules that are searched (",
                searched, ", split_backward); empty: operation counts, equal times"));
  t.text("transport", p.transport,
         "auto: under mpirun or srun mpi (on GPUs nccl, where it is built in), otherwise local: "
         "workers are threads of one process",
         {"auto", "local", "mpi", "nccl"});
  t.flag("gpu_aware_mpi", p.gpu_aware_mpi,
         "with transport mpi on GPUs: MPI may be given pointers to their memory");
  t.number("timeout_seconds", p.timeout_seconds, 1, 1e7,
           "deadline of every wait; the first step is allowed 10 times that");
}

void run_fields(Table& t, Config& c) {
  t.section("device");
  t.text("kind", c.device.kind,
         "where to compute; auto: cuda on a machine with a GPU that the program was built for, "
         "otherwise cpu",
         {"auto", "cpu", "cuda"});
  t.count("threads", c.device.threads, 0, 4096, "threads per worker; 0: cores shared out");
  t.flag("graphs", c.device.graphs,
         "on GPUs: computations without dropout are launched as CUDA graphs");
  t.flag("tune", c.device.tune,
         "on GPUs: the fastest of several ways is found by timing at the first use of a shape and "
         "kept in log.directory; false: fixed choices, the same bits on every run");
  t.section("precision");
  t.text("compute", c.precision.compute,
         "type of activations, messages and weights; sums and the optimizer's state are fp32",
         {"fp32", "bf16", "fp16"})
      .warn_on_resume = true;
  t.text(
       "loss_scale", c.precision.loss_scale,
       "under fp16 alone: \"dynamic\" begins at 65536, halves where gradients overflow (that step "
       "is skipped) and doubles after 2000 good steps; or a fixed number")
      .or_number = true;
  t.flag("stochastic_rounding", c.precision.stochastic_rounding,
         "16-bit weights are rounded at random such that their mean is exact, not to nearest")
      .warn_on_resume = true;
  t.section("train");
  t.text("init_from", c.train.init_from,
         "null, a checkpoint or a folder with model.safetensors to start from")
      .empty = "null";
  t.count("freeze_below", c.train.freeze_below, 0, 10001,
          "parameters at a depth below this stay as they are: 1 embeddings, 2 also block 0, ...")
      .warn_on_resume = true;
  t.count("steps", c.train.steps, 1, kMany, "optimizer steps").required =
      "say how many optimizer steps to run";
  t.count("seed", c.train.seed, 0, kMany, "initial weights and dropout").warn_on_resume = true;
  t.count("log_every", c.train.log_every, 1, kMany, "steps between printed lines");
  t.count("eval_every", c.train.eval_every, 0, kMany, "steps between evaluations; 0: none");
  t.count("eval_batches", c.train.eval_batches, 1, kMany, "batches of an evaluation");
  t.count("sample_every", c.train.sample_every, 0, kMany, "steps between samples of text; 0: none");
  t.section("checkpoint");
  t.text("directory", c.checkpoint.directory, "where checkpoints go; empty: none are written");
  t.count("every", c.checkpoint.every, 0, kMany,
          "steps between checkpoints; 0: only at the end and on a signal");
  t.count("keep", c.checkpoint.keep, 1, kMany, "newest checkpoints that stay");
  t.section("log");
  t.text("directory", c.log.directory,
         "metrics.jsonl, resolved configuration, identity of the build; empty: none");
  t.list("trace_steps", c.log.trace_steps,
         "steps whose timeline is written to the log directory, for Perfetto");
}

void optimizer_fields(Table& t, Config& c) {
  optim::OptimizerConfig& o = c.optimizer;
  t.section("optimizer");
  t.number("learning_rate", o.learning_rate, 0, 100, "peak rate");
  t.number("beta1", o.beta1, 0, 0.999999, "decay of the first moment");
  t.number("beta2", o.beta2, 0, 0.9999999, "decay of the second moment");
  t.number("epsilon", o.epsilon, 1e-16, 1, "outside the root");
  t.number("weight_decay", o.weight_decay, 0, 100, "decoupled, on matrices alone");
  t.number("grad_clip", o.grad_clip, 0, 1e9, "largest global norm; 0: off");
  t.number("label_smoothing", o.label_smoothing, 0, 0.999,
           "share of the target spread evenly over the vocabulary");
  t.number("layer_lr_decay", o.layer_lr_decay, 1e-6, 1, "rate factor per layer below the head");
  t.section("lr_schedule");
  t.text("type", c.lr_schedule.type, "after the warm-up", {"cosine", "linear", "constant"});
  t.count("warmup_steps", c.lr_schedule.warmup_steps, 0, kMany, "linear warm-up");
  t.number("min_learning_rate", c.lr_schedule.min_learning_rate, 0, 100, "at the end");
}

}  // namespace

std::string Field::pointer() const {
  std::string out = "/" + path;
  out[out.find('.')] = '/';
  return out;
}

std::vector<Field> config_fields(Config& config) {
  Table table;
  model_fields(table, config);
  data_fields(table, config);
  parallel_fields(table, config);
  optimizer_fields(table, config);
  run_fields(table, config);
  return std::move(table.fields);
}

std::string meaning_of(const std::vector<Field>& fields, const std::string& path) {
  const auto found = std::ranges::find(fields, path, &Field::path);
  ENSURE(found != fields.end(), "the configuration has no key ", path);
  return found->meaning;
}

}  // namespace chimera
