// Bad usage and configuration: exit code 2, every problem named with its path, before any compute.
#include "e2e/bad_input.h"

namespace chimera::test {
namespace {

// A case that changes keys of the project's configuration.
BadInput set(const std::string& name, const std::string& changes,
             const std::vector<std::string>& pieces) {
  return {name, "", "train ../config.json " + changes, 2, pieces};
}

}  // namespace

TEST_CASE("bad input: usage") {
  BadInputs().check({
      {"no command", "", "", 2, {"subcommand is required", "--help"}},
      {"unknown command", "", "trane", 2, {"--help"}},
      {"unknown option", "", "train ../config.json --rsume auto", 2, {"--rsume", "--help"}},
      {"no configuration", "", "train", 2, {"config is required"}},
      {"option without value", "", "train ../config.json --set", 2, {"--set"}},
      {"no sub-subcommand", "", "tokenizer", 2, {"subcommand is required"}},
      {"no checkpoint named", "", "generate --prompt x", 2, {"--checkpoint is required"}},
      {"no data named", "", "eval --checkpoint ../run/checkpoints", 2, {"--data is required"}},
      {"number expected", "", "schedule show -D four", 2, {"four"}},
  });
}

TEST_CASE("bad input: configuration") {
  BadInputs().check({
      {"missing configuration", "", "train none.json", 2, {"none.json", "No such file"}},
      {"configuration is a folder", "mkdir c", "train c", 2, {"c is a directory"}},
      {"not JSON", "echo '{\"train\": {' >c", "train c", 2, {"c is not valid JSON", "line"}},
      {"not an object", "echo '[1]' >c", "train c", 2, {"must be a JSON object"}},
      {"empty file", ": >c", "train c", 2, {"c is not valid JSON"}},
      {"key twice",
       "echo '{\"train\": {\"steps\": 1, \"steps\": 2}}' >c",
       "train c",
       2,
       {"\"steps\" stands twice"}},
      {"not UTF-8",
       "printf '{\"log\": {\"directory\": \"\\377\"}}' >c",
       "train c",
       2,
       {"not valid JSON"}},
      {"deep nesting", "(yes [ | head -100000 | tr -d '\\n') >c", "train c", 2, {"nested deeper"}},
      set("unknown section", "--set trian.steps=3", {"unknown key trian", "nearest known key"}),
      set("unknown key", "--set train.step=3",
          {"unknown key train.step (value 3)", "nearest known key is train.steps"}),
      set("set without dot", "--set steps=3", {"section.key=value"}),
      set("set not UTF-8", "--set log.directory=$'\\377'", {"not UTF-8"}),
      set("wrong type", "--set train.steps=many", {"train.steps is \"many\"", "whole number"}),
      set("fraction", "--set train.steps=1.5", {"train.steps is 1.5", "whole number"}),
      set("beyond 64 bits", "--set train.steps=1e30", {"train.steps"}),
      set("out of range", "--set optimizer.beta2=1.5", {"optimizer.beta2 is 1.5", "between 0 and"}),
      set("negative", "--set parallel.width=-1", {"parallel.width is -1", "between 1 and"}),
      set("not finite", "--set optimizer.learning_rate=1e999", {"optimizer.learning_rate"}),
      set("unknown schedule", "--set parallel.schedule=chimaera",
          {"parallel.schedule", "nearest: chimera"}),
      set("odd depth", "--set parallel.depth=3", {"parallel.depth is 3", "even depth", "1f1b"}),
      set("deeper than the model", "--set parallel.depth=8", {"parallel.depth is 8", "4 layers"}),
      set("heads do not divide", "--set model.n_head=3", {"model.n_embd is 16", "n_head 3"}),
      set("longer than positions", "--set data.sequence_length=9",
          {"data.sequence_length is 9", "n_positions 8"}),
      set("stage layers", "--set 'parallel.stage_layers=[1,1,1]'",
          {"stage_layers has 3 entries", "adds up to 3"}),
      set("warm-up beyond the end", "--set lr_schedule.warmup_steps=13",
          {"warmup_steps is 13", "train.steps 12"}),
      set("rates", "--set lr_schedule.min_learning_rate=1", {"min_learning_rate is 1", "0.01"}),
      set("samples without tokenizer", "--set train.sample_every=1 --set 'data.tokenizer=\"\"'",
          {"train.sample_every", "needs data.tokenizer"}),
      set("steps overflow",
          "--set train.steps=1000000000000000 --set parallel.width=65536 --set "
          "parallel.micro_batches=1048576",
          {"overflow"}),
      set("device", "--set device.kind=tpu", {"device.kind", "cpu, cuda"}),
      set("all together",
          "--set train.step=3 --set optimizer.beta1=2 --set parallel.schedule=x --set "
          "model.n_head=no",
          {"4 problems", "train.step", "optimizer.beta1", "parallel.schedule", "model.n_head"}),
      {"resume from nothing", "", "train ../config.json --resume none", 1, {"none"}},
  });
}

}  // namespace chimera::test
