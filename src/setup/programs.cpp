#include "chimera/setup/programs.h"

#include <optional>

#include "chimera/model/balance.h"
#include "chimera/plan/calibration.h"
#include "chimera/schedule/build.h"
#include "chimera/tensor/half.h"

namespace chimera {
namespace {

std::optional<plan::PieceTimes> measured_times(const Config& config) {
  if (config.parallel.calibration.empty()) return std::nullopt;
  return plan::measured_times(plan::read_calibration(config.parallel.calibration), config.model,
                              config.parallel.micro_batch_size, config.sequence_length());
}

}  // namespace

std::vector<Index> stage_layers(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (!p.stage_layers.empty()) return p.stage_layers;
  const auto measured = measured_times(config);
  return model::balanced_stage_layers(
      config.model, Index{p.request.depth} * p.request.virtual_stages,
      measured ? plan::stage_costs(*measured)
               : model::estimated_costs(config.model, config.sequence_length()));
}

plan::Shape shape_of(const Config& config) {
  return {config.model,
          stage_layers(config),
          config.parallel.micro_batch_size,
          config.sequence_length(),
          plan::parse_recompute(config.parallel.recompute),
          parse_compute_type(config.precision.compute)};
}

schedule::Request schedule_request(const Config& config) {
  const ParallelConfig& p = config.parallel;
  schedule::Request request = p.request;
  request.tied = config.model.tied_embeddings;
  request.recompute = p.recompute == "full";
  if (const auto measured = measured_times(config))
    request.times = plan::search_times(*measured, config.model, stage_layers(config),
                                       plan::parse_recompute(p.recompute), p.request.depth);
  return request;
}

Programs build_programs(const Config& config) {
  const schedule::Request request = schedule_request(config);
  Programs programs;
  programs.train = schedule::build_schedule(request);
  programs.evaluation = schedule::build_evaluation(programs.train, request.micro_batches);
  return programs;
}

std::vector<plan::WorkerFootprint> footprints(const Config& config, const Programs& programs) {
  const auto stages = plan::all_stage_bytes(shape_of(config), programs.train);
  std::vector<plan::WorkerFootprint> out;
  for (int rank = 0; rank < narrow<int>(config.workers()); ++rank)
    out.push_back(plan::worker_footprint(stages, programs.train, &programs.evaluation,
                                         rank / programs.train.depth, rank % programs.train.depth));
  return out;
}

}  // namespace chimera
