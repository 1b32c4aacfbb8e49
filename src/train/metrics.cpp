#include "metrics.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "chimera/base/format.h"
#include "chimera/base/json.h"
#include "chimera/base/log.h"
#include "chimera/model/config.h"

namespace chimera::train {
namespace {

struct Kept {
  std::string lines;
  bool evaluated = false;  // the last of the kept steps has its validation loss
};
// The lines of steps up to `last`, so that a resumed run writes each step once.
Kept lines_up_to(const Path& path, Index last) {
  std::ifstream in(path);
  Kept kept;
  std::string line;
  while (std::getline(in, line)) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    const auto step = json["step"].get<Index>();
    if (step > last) continue;
    kept.lines += line + "\n";
    kept.evaluated |= step == last && json.contains("validation_loss");
  }
  return kept;
}

// Of this process now.
Index resident_bytes() {
  std::ifstream in("/proc/self/statm");
  Index total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A run that starts at step 0 writes a new file; an older run's stays under another name.
void keep_aside(const Path& path) {
  if (!std::filesystem::exists(path) || std::filesystem::file_size(path) == 0) return;
  for (int n = 1;; ++n) {
    const Path aside = path.parent_path() / concat("metrics.", n, ".jsonl");
    if (std::filesystem::exists(aside)) continue;
    rename_path(path, aside);
    log_info("the metrics of an earlier run are kept as ", aside.string());
    return;
  }
}

}  // namespace

Metrics::Metrics(const Config& config, Index start, Index consumed_samples, double peak_flops)
    : config_(config),
      terminal_(isatty(STDOUT_FILENO) == 1),
      start_(start),
      consumed_samples_(consumed_samples),
      peak_flops_(peak_flops) {
  if (config.log.directory.empty()) return;
  const Path path = Path(config.log.directory) / "metrics.jsonl";
  if (start == 0) keep_aside(path);
  if (std::filesystem::exists(path)) {
    const Kept kept = lines_up_to(path, start);
    write_file_atomically(path, kept.lines);
    evaluated_ = kept.evaluated;
  }
  file_ = std::make_unique<OutputFile>(path, OutputFile::Mode::Append);
}

double Metrics::tokens_per_second() const {
  const double tokens = static_cast<double>(config_.batch() * config_.sequence_length());
  return window_seconds_ > 0 ? tokens * static_cast<double>(window_steps_) / window_seconds_ : 0;
}

std::string Metrics::line(Index step, const StepResult& r) const {
  const double seconds = window_seconds_ / static_cast<double>(window_steps_);
  const double left = total_seconds_ / static_cast<double>(total_steps_) *
                      static_cast<double>(config_.train.steps - step);
  std::string mfu;
  if (peak_flops_ > 0)
    mfu = format(" | MFU %.1f%% full",
                 100 * tokens_per_second() *
                     model::flops_per_token(config_.model, config_.sequence_length(), false) /
                     peak_flops_);
  std::string scale;
  if (config_.precision.compute == "fp16") {
    scale = format(" | loss scale %.0f", r.loss_scale);
    if (window_skipped_ > 0) scale += format(", %ld skipped", static_cast<long>(window_skipped_));
  }
  return format("step %6ld/%ld | loss %.4f | norm %.3f | lr %.2e | %.1f ms | %s tok/s",
                static_cast<long>(step), static_cast<long>(config_.train.steps), r.loss,
                r.grad_norm, r.learning_rate, 1e3 * seconds,
                human_count(tokens_per_second()).c_str()) +
         scale + mfu +
         format(" | mem %s | data %.1f%% | ETA %s", human_bytes(resident_bytes()).c_str(),
                100 * window_data_seconds_ / window_seconds_, human_seconds(left).c_str());
}

void Metrics::step(Index step, const StepResult& r, double seconds) {
  window_seconds_ += seconds;
  window_data_seconds_ += r.data_seconds;
  total_seconds_ += seconds;
  ++window_steps_;
  ++total_steps_;
  window_skipped_ += r.skipped ? 1 : 0;
  const bool due =
      step % config_.train.log_every == 0 || step == config_.train.steps || step == start_ + 1;
  if (terminal_ || due) {
    const std::string text = line(step, r);
    // On a terminal the live line is rewritten in place; \x1b[K clears what is left of a longer
    // one.
    if (terminal_)
      std::cout << '\r' << text << "\x1b[K";
    else
      std::cout << text;
    if (due) std::cout << '\n';
    std::cout.flush();
    live_ = !due;
  }
  if (!due) return;
  Json json = {{"step", step},
               {"loss", r.loss},
               {"grad_norm", r.grad_norm},
               {"learning_rate", r.learning_rate},
               {"step_seconds", window_seconds_ / static_cast<double>(window_steps_)},
               {"tokens_per_second", tokens_per_second()},
               {"data_seconds", window_data_seconds_ / static_cast<double>(window_steps_)},
               {"tokens", (consumed_samples_ + (step - start_) * config_.batch()) *
                              config_.sequence_length()}};
  if (config_.precision.compute == "fp16") {
    json["loss_scale"] = r.loss_scale;
    json["skipped_steps"] = window_skipped_;
  }
  append(json.dump());
  window_seconds_ = window_data_seconds_ = 0;
  window_steps_ = window_skipped_ = 0;
}

void Metrics::evaluation(Index step, double loss, Index samples) {
  finish_live_line();
  std::cout << format("step %6ld/%ld | validation loss %.4f | perplexity %.2f (%ld samples)\n",
                      static_cast<long>(step), static_cast<long>(config_.train.steps), loss,
                      std::exp(loss), static_cast<long>(samples))
            << std::flush;
  append(Json{{"step", step}, {"validation_loss", loss}, {"samples", samples}}.dump());
}

void Metrics::event(Index step, const std::string& what, const std::string& value) {
  finish_live_line();
  std::cout << format("step %6ld/%ld | ", static_cast<long>(step),
                      static_cast<long>(config_.train.steps))
            << what << ' ' << value << std::endl;
  // A sample may end within a character: its bytes become U+FFFD in the file.
  append(Json{{"step", step}, {what, value}}.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void Metrics::finish_live_line() {
  if (live_) std::cout << '\n';
  live_ = false;
}

void Metrics::append(const std::string& json_line) {
  if (!file_) return;
  try {
    file_->write(json_line + "\n");
  } catch (const Error& e) {
    log_warning(e.what(), "; training goes on without it");
    file_.reset();
  }
}

}  // namespace chimera::train
