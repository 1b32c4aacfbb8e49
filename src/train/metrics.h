#pragma once
// What a run says: one line per logged step, a live line on a terminal, metrics.jsonl in the log
// directory.
#include <memory>
#include <string>

#include "chimera/base/file.h"
#include "chimera/runtime/step_result.h"
#include "chimera/setup/config.h"

namespace chimera::train {

class Metrics {
 public:
  // Appends to directory/metrics.jsonl, where lines of steps after `start` (of a run that was
  // killed) are dropped. `peak_flops`: of all cores in use, for the MFU; 0 where unknown.
  Metrics(const Config& config, Index start, Index consumed_samples, double peak_flops);

  // Of the step that ended now, `step` completed steps. Prints when due.
  void step(Index step, const StepResult& result, double seconds);
  void evaluation(Index step, double loss, Index samples);
  void event(Index step, const std::string& what, const std::string& value);
  // Whether the validation loss of step `start` is in the file already: a stop signal may have come
  // before its evaluation.
  bool start_is_evaluated() const { return evaluated_; }
  void finish_live_line();
  double tokens_per_second() const;

 private:
  void append(const std::string& json_line);
  std::string line(Index step, const StepResult& result) const;

  const Config& config_;
  std::unique_ptr<OutputFile> file_;
  bool terminal_;
  bool live_ = false;
  Index start_, consumed_samples_;  // completed steps and samples seen when this run began
  bool evaluated_ = false;
  double peak_flops_;
  double window_seconds_ = 0;  // since the last printed line
  Index window_steps_ = 0, window_skipped_ = 0;
  double window_data_seconds_ = 0;
  double total_seconds_ = 0;
  Index total_steps_ = 0;
};

}  // namespace chimera::train
