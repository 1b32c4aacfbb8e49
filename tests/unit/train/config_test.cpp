#include "chimera/setup/config_file.h"

#include <nlohmann/json.hpp>

#include "chimera/setup/config_check.h"
#include "chimera/setup/config_fields.h"

#include "support/support.h"

using namespace chimera;
using Catch::Matchers::Contains;

namespace {

const std::string kGood = R"({
  // comments are welcome
  "model": {"n_layer": 4, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 50},
  "data": {"train": ["a.bin", "b-*.bin"]},
  "parallel": {"schedule": "chimera", "depth": 2, "micro_batches": 4},
  "train": {"steps": 10}
})";

std::string message_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "run.json", overrides);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

std::string with(const std::string& override_text) { return message_of(kGood, {override_text}); }

}  // namespace

TEST_CASE("a configuration is read, overridden, and written back to the same values") {
  const Config config =
      parse_config(kGood, "run.json",
                   {"parallel.micro_batch_size=3", "optimizer.beta2=0.99", "data.tokenizer=x/y"});
  CHECK(config.parallel.micro_batch_size == 3);
  CHECK(config.optimizer.beta2 == 0.99);
  CHECK(config.data.tokenizer == "x/y");
  CHECK(config.batch() == 12);
  CHECK(config.sequence_length() == 16);
  CHECK(config.data.train == std::vector<DataSource>{{{"a.bin", "b-*.bin"}, 1}});
  const Config again = parse_config(config_to_json(config).dump(), "again", {});
  CHECK(config_to_json(again) == config_to_json(config));
}

TEST_CASE("a preset gives the shape, keys beside it override") {
  const Config c =
      parse_config(kGood, "run.json", {"model.preset=gpt2-124m", "data.sequence_length=8"});
  CHECK(c.model.n_layer == 4);
  const std::string text =
      R"({"model": {"preset": "gpt2-350m", "n_positions": 32}, "data": {"train": "x"}, "train": {"steps": 1}})";
  const Config preset = parse_config(text, "p.json", {});
  CHECK(preset.model.n_embd == 1024);
  CHECK(preset.model.n_positions == 32);
  // Radford et al.: 124M to 1558M; Li and Hoefler, table 4: 1,389,327,360.
  const auto count = [](const std::string& name) {
    return model::parameter_count(
        parse_config(R"({"model": {"preset": ")" + name +
                         R"("}, "data": {"train": "x"}, "train": {"steps": 1}})",
                     name, {})
            .model);
  };
  CHECK(count("gpt2-124m") == 124439808);
  CHECK(count("gpt2-1558m") == 1557611200);
  CHECK(count("gpt2-1.3b") == 1389327360);
}

TEST_CASE("weighted sources are read") {
  const Config c = parse_config(
      kGood, "run.json",
      {R"(data.train=[{"files": ["a", "b"], "weight": 0.25}, {"files": ["c"], "weight": 3}])"});
  CHECK(c.data.train == std::vector<DataSource>{{{"a", "b"}, 0.25}, {{"c"}, 3}});
}

TEST_CASE("every problem is reported together, with path, value and way out") {
  const std::string text = message_of(kGood, {"model.n_layers=3", "parallel.depth=\"four\"",
                                              "optimizer.beta1=1.5", "train.steps=-1"});
  CHECK_THAT(text, Contains("4 problems"));
  CHECK_THAT(
      text,
      Contains("unknown key model.n_layers (value 3); the nearest known key is model.n_layer"));
  CHECK_THAT(text, Contains("parallel.depth is \"four\"; it must be a whole number"));
  CHECK_THAT(text, Contains("optimizer.beta1 is 1.5; it must be between 0 and 0.999999"));
  CHECK_THAT(text, Contains("train.steps is -1; it must be between 1 and"));
}

TEST_CASE("each impossible value or combination is refused with its reason") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"parallel.depth=3", "chimera needs an even depth"},
      {"parallel.depth=8", "more stages than the 4 layers"},
      {"parallel.pipeline_pairs=3",
       "parallel.pipeline_pairs is 3; it must divide depth / 2 = 1: use 1"},
      {"parallel.schedule=gpip", "nearest: gpipe"},
      {"parallel.schedule=3", "text in double quotes"},
      {"parallel.stage_layers=[1,2]", "adds up to 3; the model has 4 layers"},
      {"parallel.stage_layers=[4]", "has 1 entries; there are 2 stages"},
      {"parallel.stage_layers=[4,0]", "needs at least 1"},
      {"parallel.stage_layers=\"even\"", "a list of whole numbers"},
      {"parallel.micro_batches=0", "between 1 and"},
      {"parallel.micro_batches=2.5", "whole number"},
      {"parallel.width=1e30", "whole number"},
      {"parallel.zero_stage=2", "between 0 and 1"},
      {"parallel.gradient_sync=soon", "one of lazy, eager, eager-opt"},
      {"parallel.recompute=some", "one of none, selective, full"},
      {"parallel.overlap_steps=true", "with split_backward true alone"},
      {"parallel.calibration=missing.json", "missing.json"},
      {"parallel.transport=tcp", "one of auto, local, mpi"},
      {"parallel.timeout_seconds=0", "between 1 and"},
      {"model.n_embd=9", "does not divide"},
      {"model.n_embd=1024", "head size"},
      {"model.vocab_size=1", "between 2 and"},
      {"model.embd_pdrop=1", "between 0 and 0.99"},
      {"model.attn_pdrop=-0.1", "between 0 and 0.99"},
      {"model.tied_embeddings=1", "true or false"},
      {"model.preset=gpt3", "one of gpt2-124m"},
      {"model.position_encoding=null", "text in double quotes"},
      {"model.position_encoding=\"\"", "one of learned, sinusoidal"},
      {"lr_schedule.type=\"\"", "one of cosine"},
      {"model.position_encoding=rotary", "one of learned, sinusoidal"},
      {"data.sequence_length=17", "longer than model.n_positions 16"},
      {"data.train=[]", "data.train is not set"},
      {"data.train=[1]", "a list of paths"},
      {"data.train=[{\"files\":[\"a\"]}]", "\"weight\": number above 0"},
      {"data.train=[{\"files\":[\"a\"],\"weight\":0}]", "\"weight\": number above 0"},
      {"device.kind=tpu", "one of auto, cpu"},
      {"precision.compute=fp8", "one of fp32, bf16, fp16"},
      {"precision.stochastic_rounding=true", "16-bit weights"},
      {"precision.loss_scale=loud", "\"dynamic\" or a number from 1"},
      {"precision.loss_scale=0.5", "precision.loss_scale is \"0.5\""},
      {"optimizer.grad_clip=-1", "between 0 and"},
      {"optimizer.label_smoothing=1", "between 0 and 0.999"},
      {"optimizer.epsilon=0", "between 1e-16 and 1"},
      {"optimizer.clip_mode=rollback", "unknown key optimizer.clip_mode"},
      {"lr_schedule.type=step", "one of cosine, linear, constant"},
      {"lr_schedule.warmup_steps=11", "more than train.steps 10"},
      {"lr_schedule.min_learning_rate=1", "above optimizer.learning_rate"},
      {"train.steps=0", "between 1 and"},
      {"train.sample_every=5", "needs data.tokenizer"},
      {"train.freeze_below=9", "the model's depths end at 5"},
      {"checkpoint.keep=0", "between 1 and"},
      {"log.tensorboard=true", "unknown key log.tensorboard"},
      {"log.trace_steps=[1]", "log.directory is empty"},
      {"log.trace_steps=[0]", "steps are 1 to"},
      {"parallel=3", "must have the form section.key=value"},
      {"nonsense", "must have the form section.key=value"},
      {"pararell.depth=2", "unknown key"},
      {"train.init_from=7", "text in double quotes"},
  };
  for (const auto& [change, expected] : cases) {
    INFO(change);
    CHECK_THAT(with(change), Contains(expected));
  }
}

TEST_CASE("precision: what a loss scale can be, and where none can adapt") {
  const auto scale = [](const std::string& value) {
    return parse_config(kGood, "run.json",
                        {"precision.compute=fp16", "precision.loss_scale=" + value})
        .precision.loss_scale;
  };
  CHECK(scale("dynamic") == "dynamic");
  CHECK(scale("1024") == "1024");
  CHECK(scale("\"4096\"") == "4096");
  const std::vector<std::string> stale = {
      "precision.compute=fp16", "parallel.schedule=pipedream-2bw", "optimizer.grad_clip=0"};
  CHECK_THAT(message_of(kGood, stale),
             Contains("schedule pipedream-2bw") && Contains("precision.loss_scale to a number"));
  const std::vector<std::string> overlapping = {
      "precision.compute=fp16", "parallel.split_backward=true", "parallel.overlap_steps=true",
      "optimizer.grad_clip=0"};
  CHECK_THAT(message_of(kGood, overlapping), Contains("overlap_steps") && Contains("use bf16"));
  for (std::vector<std::string> settings : {stale, overlapping}) {
    settings.push_back("precision.loss_scale=1024");
    CHECK(message_of(kGood, settings) == "");
    settings = {settings.begin() + 1, settings.end() - 1};
    settings.push_back("precision.compute=bf16");
    settings.push_back("precision.stochastic_rounding=true");
    CHECK(message_of(kGood, settings) == "");
  }
}

TEST_CASE("text that is no configuration is refused with the place") {
  CHECK_THAT(message_of("{\"model\": {\"n_layer\": 4,}}"),
             Contains("run.json is not valid JSON") && Contains("line 1"));
  CHECK_THAT(message_of("[1, 2]"), Contains("must be a JSON object"));
  CHECK_THAT(message_of("{\"model\": 4}"), Contains("model is 4; it must be an object"));
  CHECK_THAT(message_of("{\"train\": {\"steps\": 1, \"steps\": 2}}"),
             Contains("\"steps\" stands twice"));
  CHECK_THAT(message_of("{\"train\": {\"steps\": NaN}}"), Contains("not valid JSON"));
  CHECK_THAT(message_of(std::string(100, '[')),
             Contains("nested deeper") || Contains("not valid JSON"));
  CHECK_THAT(message_of("{}"), Contains("model.n_layer is not set") &&
                                   Contains("train.steps is not set") &&
                                   Contains("data.train is not set"));
  CHECK_THROWS_AS(load_config("/no/such/file.json", {}), Error);
  CHECK_THROWS_AS(load_config("/", {}), Error);
}

TEST_CASE(
    "a problem says which keys it is about, and is not reported where one was not understood") {
  Config config = parse_config(kGood, "run.json", {});
  CHECK(check_config(config).empty());
  config.data.sequence_length = 17;
  config.train.steps = 0;
  const std::vector<ConfigProblem> problems = check_config(config);
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].keys == std::vector<std::string>{"train.steps"});
  CHECK_THAT(problems[0].text, Contains("train.steps is not set; say how many"));
  CHECK(problems[1].keys == std::vector<std::string>{"data.sequence_length", "model.n_positions"});
  const std::string unread = message_of(kGood, {"train.steps=\"ten\""});
  CHECK_THAT(unread, Contains("1 problem") && Contains("train.steps is \"ten\""));
}

TEST_CASE("the explanation names every key once") {
  Config config;
  const std::string table = explain_config();
  for (const Field& field : config_fields(config)) {
    const std::string key = "| `" + field.path + "` |";
    INFO(key);
    CHECK(table.find(key) != std::string::npos);
    CHECK(table.find(key) == table.rfind(key));
  }
}

// Several settings at once: what a schedule cannot do, with the nearest that it can.
TEST_CASE("each combination that a schedule cannot do is refused with the nearest that it can") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"schedule=1f1b", "pipeline_pairs=2"}, "use 1, or schedule chimera"},
      {{"schedule=gems", "scaling=doubling"}, "use direct, or schedule chimera"},
      {{"schedule=gpipe", "split_backward=true"}, "schedule chimera or zb-h1"},
      {{"schedule=zb-h1", "overlap_steps=true"}, "chimera with split_backward"},
      {{"schedule=pipedream", "micro_batches=2"}, "use 1, or schedule pipedream-2bw"},
      {{"schedule=pipedream", "micro_batches=1"}, "tied_embeddings false"},
      {{"schedule=pipedream-2bw", "micro_batches=1"}, "at least depth micro-batches"},
      {{"schedule=pipedream-2bw", "micro_batches=4"}, "optimizer.grad_clip is 1"},
      {{"schedule=pipedream-2bw", "micro_batches=4", "zero_stage=1"}, "or a synchronous schedule"},
      {{"schedule=interleaved", "micro_batches=3"}, "a multiple of depth 2: use 4"},
      {{"schedule=interleaved", "micro_batches=4", "virtual_stages=3"}, "more stages than the 4"},
      {{"schedule=1f1b", "virtual_stages=2"}, "schedule interleaved"},
      {{"scaling=doubling", "micro_batches=3"}, "a multiple of depth 2: use 4"},
      {{"scaling=halving", "micro_batches=4", "recompute=full"}, "scaling doubling"},
      {{"scaling=doubling", "micro_batches=4", "split_backward=true"}, "scaling direct"},
      {{"split_backward=true", "overlap_steps=true"}, "set it to 0"},
      {{"split_backward=true", "overlap_steps=true", "zero_stage=1"}, "use one of them"},
      {{"split_backward=true", "recompute=selective"}, "use none or full"},
  };
  for (const auto& [changes, expected] : cases) {
    std::vector<std::string> settings;
    for (const std::string& change : changes) settings.push_back("parallel." + change);
    INFO(settings.front() << " " << settings.back());
    CHECK_THAT(message_of(kGood, settings), Contains(expected));
  }
}
