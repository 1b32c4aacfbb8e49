#include "e2e/project.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "chimera/base/rng.h"

namespace chimera::test {
namespace fs = std::filesystem;
namespace {

// 120 lines of nine words; the same everywhere.
std::string some_text() {
  const std::vector<std::string> words = {"the",  "sea",   "river", "light",  "of",
                                          "and",  "stone", "bird",  "over",   "mountain",
                                          "went", "came",  "said",  "morning"};
  std::string text;
  for (std::uint32_t i = 0; i < 120 * 9; ++i) {
    text += words[philox4x32({i, 0, 0, 0}, {7, 0})[0] % words.size()];
    text += i % 9 == 8 ? ".\n" : " ";
  }
  return text;
}

constexpr const char* kConfig = R"({
  "model": {"n_layer": 4, "n_head": 2, "n_embd": 16, "n_positions": 8, "vocab_size": 300},
  "data": {"train": ["../data/train-*.bin"], "validation": ["../data/val-*.bin"],
           "tokenizer": "../data/tokenizer"},
  "parallel": {"schedule": "chimera", "depth": 4, "micro_batches": 4, "timeout_seconds": 30},
  "optimizer": {"learning_rate": 0.01},
  "lr_schedule": {"warmup_steps": 3, "min_learning_rate": 0.001},
  "train": {"steps": 12, "log_every": 1, "eval_every": 4, "eval_batches": 2},
  "checkpoint": {"directory": "checkpoints", "every": 3, "keep": 100},
  "log": {"directory": "log"}
})";

void require_success(const CommandResult& result) {
  if (result.exit_code != 0) throw std::runtime_error(result.out + result.err);
}

}  // namespace

Project::Project(fs::path program) {
  spit(*this / "text.txt", some_text());
  spit(*this / "config.json", kConfig);
  require_success(run(".", "tokenizer train --vocab-size 300 --output tokenizer text.txt"));
  require_success(run(".",
                      "data prepare --tokenizer tokenizer --output data --validation-fraction 0.2 "
                      "--shard-tokens 500 text.txt"));
  program_ = std::move(program);
}

CommandResult Project::run(const std::string& where, const std::string& arguments,
                           const std::string& launcher) const {
  fs::create_directories(*this / where);
  return run_command("cd " + (*this / where).string() + "\n" + without_launcher() + launcher +
                     (launcher.empty() ? "" : " ") + program_.string() + " " + arguments);
}

fs::path Project::newest(const std::string& where) const {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(folder_ / where / "checkpoints"))
    if (entry.path().filename().string().starts_with("step-") && entry.path() > newest)
      newest = entry.path();
  if (newest.empty()) throw std::runtime_error("no checkpoint in " + where);
  return newest;
}

std::map<std::string, std::string> Project::checkpoint_files(const std::string& where) const {
  std::map<std::string, std::string> files;
  const fs::path root = folder_ / where / "checkpoints";
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.is_regular_file() && entry.path().filename() != ".lock")
      files[fs::relative(entry.path(), root).string()] = slurp(entry.path());
  return files;
}

std::vector<Json> Project::metrics(const std::string& where, const std::string& key) const {
  std::istringstream lines(slurp(folder_ / where / "log/metrics.jsonl"));
  std::vector<Json> out;
  for (std::string line; std::getline(lines, line);)
    if (const Json json = Json::parse(line); json.contains(key)) out.push_back(json);
  return out;
}

std::vector<std::string> curve(const Project& project, const std::string& where) {
  std::vector<std::string> out;
  for (const Json& line : project.metrics(where, "loss"))
    out.push_back(
        Json{line.at("step"), line.at("loss"), line.at("grad_norm"), line.at("learning_rate")}
            .dump());
  for (const Json& line : project.metrics(where, "validation_loss"))
    out.push_back(Json{line.at("step"), line.at("validation_loss")}.dump());
  return out;
}

std::string diverging() {
  return "--set optimizer.learning_rate=100 --set optimizer.grad_clip=0 --set "
         "model.initializer_range=10 --set lr_schedule.warmup_steps=0 --set checkpoint.every=1";
}

std::string without_launcher() {
  return "unset PMI_SIZE PMI_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK "
         "SLURM_STEP_NUM_TASKS SLURM_PROCID\n";
}

std::string shard_bytes(const std::vector<int>& tokens) {
  std::string out(1024, '\0');
  const auto put = [](char* to, std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to[i] = static_cast<char>(value >> (8 * i) & 255);
  };
  put(out.data(), 20240520, 4);
  put(out.data() + 4, 1, 4);
  put(out.data() + 8, static_cast<std::uint32_t>(tokens.size()), 4);
  for (const int token : tokens) {
    out.append(2, '\0');
    put(out.data() + out.size() - 2, static_cast<std::uint32_t>(token), 2);
  }
  return out;
}

}  // namespace chimera::test
