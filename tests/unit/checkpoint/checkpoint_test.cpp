#include "chimera/checkpoint/checkpoint.h"

#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "fixture.h"

namespace chimera::test {

using Catch::Contains;
using checkpoint::Checkpoint;
using checkpoint::list_checkpoints;
using checkpoint::newest_valid;
using Names = std::vector<std::string>;

TEST_CASE("checkpoint: two workers' tensors come back bit by bit from one directory") {
  TemporaryFolder folder;
  const Path directory = folder / "runs/a/checkpoints";
  const Path path = write_checkpoint(directory, 1000);
  CHECK(path == directory / "step-00001000");
  CHECK(names_in(directory) == Names{"step-00001000"});
  CHECK(names_in(path) == Names{"config.json", "manifest.json", "model-00001-of-00002.safetensors",
                                "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                                "optimizer-00001-of-00002.safetensors",
                                "optimizer-00002-of-00002.safetensors", "tokenizer"});
  CHECK(names_in(path / "tokenizer") == Names{"merges.txt", "vocab.json"});

  for (const Path& given : {path, path / "", directory}) {
    const Checkpoint c = Checkpoint::open(given);
    c.verify();
    CHECK(c.manifest().step == 1000);
    CHECK(c.manifest().consumed_samples == 4096);
    CHECK(c.manifest().environment.at("layout") == "D 2, W 1");
    CHECK(c.manifest().tensors.size() == 15);  // 2 weights per block, the embedding; three of each
    CHECK(holds_numbers_of(c, 1000));
  }
}

TEST_CASE("checkpoint: Hugging Face's files say where each weight is") {
  TemporaryFolder folder;
  const Path path = write_checkpoint(folder.path(), 5);
  const Json index = read_json((path / "model.safetensors.index.json").string());
  REQUIRE(index["weight_map"].size() == 5);  // weights alone, no moments
  Index bytes = 0;
  for (const auto& [name, file] : index["weight_map"].items()) {
    const checkpoint::SafetensorsFile weights(path / file.get<std::string>());
    bytes += weights.at(name).bytes;
  }
  CHECK(index["metadata"]["total_size"] == bytes);
  const Json config = read_json((path / "config.json").string());
  CHECK(config["architectures"][0] == "GPT2LMHeadModel");
  CHECK(config["n_embd"] == 4);
  CHECK(config["eos_token_id"] == 9);
  CHECK(config["tie_word_embeddings"] == true);
}

TEST_CASE("checkpoint: a worker without tensors writes no file") {
  TemporaryFolder folder;
  checkpoint::CheckpointWriter writer(folder.path(), 1, "run");
  writer.begin(0, 3);
  std::vector<std::string> records;
  for (const int w : {0, 1}) {
    Numbers numbers(1, w);
    records.push_back(writer.write_shard(w, 3, numbers.tensors()));
  }
  records.push_back(writer.write_shard(2, 3, {}));
  const Checkpoint c = Checkpoint::open(writer.commit(some_manifest(), records));
  c.verify();
  CHECK(c.manifest().files.size() == 4 + 2);
  CHECK(holds_numbers_of(c, 1));
}

TEST_CASE("checkpoint: reading checks name, type and shape") {
  TemporaryFolder folder;
  const Checkpoint c = Checkpoint::open(write_checkpoint(folder.path(), 1));
  std::vector<double> room(100);
  const auto read = [&](const char* name, const Tensor& to) {
    return error_of([&] { c.read(name, to); });
  };
  CHECK_THAT(read("transformer.wte.weight", Tensor(room.data(), DType::F32, {4, 10})),
             Contains("is F32 (10, 4), but F32 (4, 10) is needed"));
  CHECK_THAT(read("transformer.wte.weight", Tensor(room.data(), DType::F64, {10, 4})),
             Contains("F64 (10, 4) is needed"));
  CHECK_THAT(read("transformer.wpe.weight", Tensor(room.data(), DType::F32, {8, 4})),
             Contains("has no tensor \"transformer.wpe.weight\""));
}

TEST_CASE("checkpoint: the newest are kept, up to the step just written") {
  TemporaryFolder folder;
  for (const Index step : {1, 2, 3, 4}) write_checkpoint(folder.path(), step, 2);
  CHECK(names_in(folder.path()) == Names{"step-00000003", "step-00000004"});

  SECTION("a step below the newest, of a run that went back, is not retired by its own write") {
    write_checkpoint(folder.path(), 2, 1);
    CHECK(names_in(folder.path()) == Names{"step-00000002", "step-00000003", "step-00000004"});
  }
  SECTION("damaged ones do not count as kept") {
    spit(folder / "step-00000004/manifest.json", "{");
    write_checkpoint(folder.path(), 5, 2);
    CHECK(names_in(folder.path()) == Names{"step-00000003", "step-00000004", "step-00000005"});
    write_checkpoint(folder.path(), 6, 2);
    CHECK(names_in(folder.path()) == Names{"step-00000005", "step-00000006"});
  }
  SECTION("keep 0 is refused") {
    checkpoint::CheckpointWriter writer(folder.path(), 4, "run");
    CHECK_THAT(error_of([&] { writer.retire(0); }), Contains("keep is 0"));
  }
}

TEST_CASE("checkpoint: one of the same step is replaced") {
  TemporaryFolder folder;
  write_checkpoint(folder.path(), 3);
  write_checkpoint(folder.path(), 3, 100, {}, /*salt=*/7);
  CHECK(names_in(folder.path()) == Names{"step-00000003"});
  CHECK(holds_numbers_of(Checkpoint::open(folder.path()), 3, 7));
}

TEST_CASE("checkpoint: what dead runs left is removed, what is not ours stays") {
  TemporaryFolder folder;
  for (const char* name : {"step-00000009.tmp.0a-b", "step-123456789.tmp.x"})
    std::filesystem::create_directories(folder / name / "tokenizer");
  const Names others = {
      "notes",  "step-00000009.tmp",        "step-00000009.tmp.a_b", "step-9.tmp.ab",
      "step-9", "step-00000009.tmp.ab.bak", "step-000000009"};
  for (const std::string& name : others) std::filesystem::create_directories(folder / name);
  spit(folder / "step-00000008.tmp.file", "a file");
  std::filesystem::create_directory_symlink(folder / "notes", folder / "step-00000008.tmp.link");
  write_checkpoint(folder.path(), 1);
  Names expected = others;
  expected.insert(expected.end(),
                  {"step-00000001", "step-00000008.tmp.file", "step-00000008.tmp.link"});
  std::sort(expected.begin(), expected.end());
  CHECK(names_in(folder.path()) == expected);
  REQUIRE(list_checkpoints(folder.path()).size() == 1);
  CHECK(list_checkpoints(folder.path())[0].step == 1);
}

TEST_CASE("checkpoint: links and names that do not belong are refused") {
  TemporaryFolder folder;
  const Path path = write_checkpoint(folder.path(), 1);
  const Path moved = folder / "elsewhere";
  const auto linked = [&](const Path& name) {
    std::filesystem::rename(path / name, moved);
    std::filesystem::create_symlink(moved, path / name);
    const std::string message = error_of([&] { Checkpoint::open(path); });
    std::filesystem::remove(path / name);
    std::filesystem::rename(moved, path / name);
    return message;
  };
  CHECK_THAT(linked("model-00001-of-00002.safetensors"), Contains("is a symbolic link"));
  CHECK_THAT(linked("manifest.json"), Contains("is a symbolic link"));
  CHECK_THAT(linked("tokenizer"), Contains("is a symbolic link"));
  std::filesystem::rename(path, folder / "step-00000002");
  CHECK_THAT(error_of([&] { Checkpoint::open(folder / "step-00000002"); }),
             Contains("is of step 1, not 2"));
  std::filesystem::rename(folder / "step-00000002", folder / "best");
  CHECK(Checkpoint::open(folder / "best").manifest().step == 1);
}

TEST_CASE("checkpoint: what is no checkpoint is refused with the reason") {
  TemporaryFolder folder;
  spit(folder / "file", "text");
  const auto open = [&](const Path& path) { return error_of([&] { Checkpoint::open(path); }); };
  CHECK_THAT(open(folder / "missing"), Contains("missing is not a directory"));
  CHECK_THAT(open(folder / "file"), Contains("file is not a directory"));
  CHECK_THAT(open(folder.path()), Contains("it is not a whole checkpoint"));
  CHECK(list_checkpoints(folder / "missing").empty());
  CHECK_FALSE(newest_valid(folder / "missing").checkpoint.has_value());
  CHECK_THAT(error_of([&] { list_checkpoints(folder / "file"); }), Contains("cannot read"));
  std::filesystem::create_directory(folder / "step-00000004");
  const auto newest = newest_valid(folder.path());
  CHECK_FALSE(newest.checkpoint.has_value());
  REQUIRE(newest.passed_over.size() == 1);
  CHECK_THAT(newest.passed_over[0], Contains("step-00000004 has no manifest.json"));
  CHECK_THAT(error_of([&] { checkpoint::CheckpointWriter(folder.path(), 1, "a/b"); }),
             Contains("run id \"a/b\""));
  CHECK_THAT(error_of([&] { checkpoint::CheckpointWriter(folder.path(), -1, "a"); }),
             Contains("step is -1"));
}

}  // namespace chimera::test
