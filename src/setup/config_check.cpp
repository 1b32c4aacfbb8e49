// Combinations that cannot work, found before any compute and reported together.
#include "chimera/setup/config_check.h"

#include <initializer_list>
#include <numeric>

#include "chimera/optim/loss_scale.h"
#include "chimera/setup/config_fields.h"
#include "chimera/setup/programs.h"

namespace chimera {
namespace {

class ProblemList {
 public:
  // `keys`: those that the message names in full.
  template <class... Parts>
  void unless(bool fine, std::initializer_list<const char*> keys, const Parts&... parts) {
    if (!fine) list.push_back({{keys.begin(), keys.end()}, concat(parts...)});
  }
  std::vector<ConfigProblem> list;
};

void check_required(const Config& c, ProblemList& problems) {
  Config copy = c;
  for (const Field& field : config_fields(copy)) {
    if (field.required.empty()) continue;
    const auto is_set = [](const auto* value) {
      if constexpr (requires { value->empty(); })
        return !value->empty();
      else
        return *value > 0;
    };
    if (!std::visit(is_set, field.target))
      problems.list.push_back({{field.path}, concat(field.path, " is not set; ", field.required)});
  }
}

void check_model(const Config& c, ProblemList& problems) {
  const model::ModelConfig& m = c.model;
  const auto head_keys = {"model.n_embd", "model.n_head"};
  if (m.n_head > 0 && m.n_embd > 0)
    problems.unless(m.n_embd % m.n_head == 0, head_keys, "model.n_embd is ", m.n_embd,
                    ", which model.n_head ", m.n_head, " does not divide; the nearest multiple is ",
                    std::max(m.n_head, m.n_embd / m.n_head * m.n_head));
  if (m.n_head > 0 && m.n_embd % m.n_head == 0)
    problems.unless(m.n_embd / m.n_head <= 256, head_keys,
                    "the head size (model.n_embd / model.n_head) is ", m.n_embd / m.n_head,
                    "; at most 256 is supported: use more heads");
  problems.unless(c.sequence_length() <= m.n_positions || m.n_positions == 0,
                  {"data.sequence_length", "model.n_positions"}, "data.sequence_length is ",
                  c.sequence_length(), ", longer than model.n_positions ", m.n_positions);
}

// The schedule's own rules, with its keys' full names.
void check_schedule(const Config& c, ProblemList& problems) {
  schedule::Refusal refusal;
  try {
    refusal = schedule::refusal(schedule_request(c));
  } catch (const Error& error) {
    return problems.unless(false, {"parallel.calibration"}, "parallel.calibration is ",
                           c.parallel.calibration, "; ", error.what());
  }
  if (refusal.empty()) return;
  if (refusal.key.empty())
    problems.list.push_back({{}, refusal.text});
  else
    problems.list.push_back({{"parallel." + refusal.key}, "parallel." + refusal.text});
}

void check_precision(const Config& c, ProblemList& problems) {
  const PrecisionConfig& p = c.precision;
  const std::optional<optim::LossScale> scale = optim::LossScale::parse(p.loss_scale);
  problems.unless(scale.has_value(), {"precision.loss_scale"}, "precision.loss_scale is \"",
                  p.loss_scale, "\"; it must be \"dynamic\" or a number from 1 to ",
                  optim::LossScale::kMost);
  problems.unless(
      !p.stochastic_rounding || p.compute != "fp32",
      {"precision.stochastic_rounding", "precision.compute"},
      "precision.stochastic_rounding is true; it needs 16-bit weights: set it to false, or "
      "precision.compute to bf16 or fp16");
  if (p.compute != "fp16" || !scale || !scale->can_skip()) return;
  const bool stale = schedule::traits_of(c.parallel.request.schedule).stale;
  problems.unless(
      !stale && !c.parallel.request.overlap_steps, {"precision.compute", "precision.loss_scale"},
      "precision.compute is fp16 with loss_scale dynamic; with ",
      stale ? "schedule " + c.parallel.request.schedule : "overlap_steps",
      " a stage is updated before anyone knows whether gradients overflowed, so no step "
      "can be skipped: use bf16, or set precision.loss_scale to a number");
}

void check_parallel(const Config& c, ProblemList& problems) {
  const ParallelConfig& p = c.parallel;
  const Index D = Index{p.request.depth} * p.request.virtual_stages, N = p.request.micro_batches;
  check_schedule(c, problems);
  const bool stale = schedule::traits_of(p.request.schedule).stale;
  problems.unless(!(stale || p.request.overlap_steps) || c.optimizer.grad_clip == 0,
                  {"optimizer.grad_clip"}, "optimizer.grad_clip is ", c.optimizer.grad_clip,
                  "; with ",
                  stale ? concat("schedule ", p.request.schedule) : std::string("overlap_steps"),
                  " a stage is updated before the norm of all gradients is known: set it to 0");
  problems.unless(p.recompute != "selective" || !schedule::splits_backward(p.request),
                  {"parallel.recompute"},
                  "parallel.recompute is selective; with a split backward it saves next to nothing "
                  "(a pending weight gradient keeps what would be recomputed): use none or full");
  problems.unless(!p.gpu_aware_mpi || (p.transport == "mpi" && c.device.kind == "cuda"),
                  {"parallel.gpu_aware_mpi", "device.kind"},
                  "parallel.gpu_aware_mpi is true; it is for transport mpi with device.kind cuda "
                  "(beside nccl it can deadlock): set it to false");
  problems.unless(p.transport != "nccl" || c.device.kind != "cpu",
                  {"parallel.transport", "device.kind"},
                  "parallel.transport is nccl, but device.kind is cpu; set one of them to auto");
  if (p.stage_layers.empty()) {
    problems.unless(D <= c.model.n_layer, {"parallel.depth"}, "parallel.depth is ", p.request.depth,
                    p.request.virtual_stages > 1
                        ? concat(" and virtual_stages ", p.request.virtual_stages)
                        : "",
                    ", more stages than the ", c.model.n_layer,
                    " layers of the model; use at most ", c.model.n_layer);
  } else {
    const auto keys = {"parallel.stage_layers"};
    for (const Index layers : p.stage_layers)
      if (layers > c.model.n_layer)
        return problems.unless(false, keys, "parallel.stage_layers has a stage of ", layers,
                               " layers; the model has ", c.model.n_layer);
    const Index sum = std::accumulate(p.stage_layers.begin(), p.stage_layers.end(), Index{0});
    problems.unless(static_cast<Index>(p.stage_layers.size()) == D, keys,
                    "parallel.stage_layers has ", p.stage_layers.size(), " entries; there are ", D,
                    " stages");
    problems.unless(sum == c.model.n_layer, keys, "parallel.stage_layers adds up to ", sum,
                    "; the model has ", c.model.n_layer, " layers");
    for (const Index layers : p.stage_layers)
      problems.unless(layers >= 1, keys, "parallel.stage_layers has a stage of ", layers,
                      " layers; every stage needs at least 1");
  }
  Index batch = 0;
  problems.unless(!__builtin_mul_overflow(p.micro_batch_size * N, p.request.width, &batch), {},
                  "the batch B * N * W overflows");
  Index tokens = 0;
  problems.unless(!__builtin_mul_overflow(batch, c.train.steps, &tokens) &&
                      !__builtin_mul_overflow(tokens, c.sequence_length(), &tokens),
                  {"train.steps"}, "train.steps ", c.train.steps, " times the batch of ", batch,
                  " x ", c.sequence_length(), " tokens overflows; use fewer steps");
}

void check_run(const Config& c, ProblemList& problems) {
  problems.unless(c.lr_schedule.min_learning_rate <= c.optimizer.learning_rate,
                  {"lr_schedule.min_learning_rate", "optimizer.learning_rate"},
                  "lr_schedule.min_learning_rate is ", c.lr_schedule.min_learning_rate,
                  ", above optimizer.learning_rate ", c.optimizer.learning_rate);
  problems.unless(c.train.steps == 0 || c.lr_schedule.warmup_steps <= c.train.steps,
                  {"lr_schedule.warmup_steps", "train.steps"}, "lr_schedule.warmup_steps is ",
                  c.lr_schedule.warmup_steps, ", more than train.steps ", c.train.steps);
  problems.unless(c.train.sample_every == 0 || !c.data.tokenizer.empty(),
                  {"train.sample_every", "data.tokenizer"}, "train.sample_every is ",
                  c.train.sample_every, ", which needs data.tokenizer");
  problems.unless(c.log.trace_steps.empty() || !c.log.directory.empty(),
                  {"log.trace_steps", "log.directory"},
                  "log.trace_steps is set, but log.directory is empty; set it, so that the traces "
                  "have a place");
  for (const Index step : c.log.trace_steps)
    problems.unless(step >= 1 && step <= std::max<Index>(1, c.train.steps), {"log.trace_steps"},
                    "log.trace_steps has step ", step, "; steps are 1 to ", c.train.steps);
  problems.unless(c.train.freeze_below <= c.model.n_layer + 1, {"train.freeze_below"},
                  "train.freeze_below is ", c.train.freeze_below, "; the model's depths end at ",
                  c.model.n_layer + 1);
}

}  // namespace

std::vector<ConfigProblem> check_config(const Config& config) {
  ProblemList problems;
  check_required(config, problems);
  check_model(config, problems);
  check_precision(config, problems);
  check_parallel(config, problems);
  check_run(config, problems);
  return problems.list;
}

}  // namespace chimera
