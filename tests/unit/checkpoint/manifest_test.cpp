#include "chimera/checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "fixture.h"

namespace chimera::test {
namespace {

using checkpoint::Manifest;
using checkpoint::parse_manifest;
using checkpoint::seal;
using checkpoint::to_text;

const std::string kSum(32, 'a');

Manifest full_manifest() {
  Manifest m = some_manifest();
  m.step = 7;
  m.files = {{"a.safetensors", 100, kSum}, {"tokenizer/merges.txt", 5, kSum}};
  m.tensors.resize(2);
  m.tensors[0].name = "u", m.tensors[0].shape = {2, 3}, m.tensors[0].offset = 40;
  m.tensors[1].name = "w", m.tensors[1].shape = {}, m.tensors[1].offset = 64;
  for (auto& t : m.tensors) t.file = "a.safetensors", t.checksum = kSum;
  return m;
}

// The manifest with the value at a JSON pointer replaced (or, by null, removed), and sealed anew.
std::string changed(const std::string& pointer, const std::string& value) {
  Json json = Json::parse(to_text(full_manifest()));
  json.erase("checksum");
  const Json::json_pointer where(pointer);
  if (value == "remove")
    json[where.parent_pointer()].erase(where.back());
  else
    json[where] = Json::parse(value);
  return seal(json.dump());
}

struct Case {
  std::string pointer, value, message;
};

const std::vector<Case> kCases = {
    {"/format", R"("other")", "format is \"other\""},
    {"/format", "remove", "format is missing"},
    {"/version", "2", "has format version 2; this build reads up to 1: use the newer chimera"},
    {"/version", "0", "version is 0"},
    {"/version", R"("1")", "it must be a whole number"},
    {"/step", "-1", "step is -1"},
    {"/step", "1.5", "it must be a whole number"},
    {"/step", "1e3", "it must be a whole number"},
    {"/step", "18446744073709551615", "it must be a whole number"},
    {"/step", "remove", "step is missing"},
    {"/consumed_samples", "null", "consumed_samples is null"},
    {"/surprise", "1", "surprise is not a known key"},
    {"/model", "[]", "it must be an object"},
    {"/model/n_layer", "0", "1 to 10000"},
    {"/model/n_embd", "9000000000000000000", "model.n_embd is 9000000000000000000"},
    {"/model/n_head", "3", "n_embd 4 is not divisible by n_head 3"},
    {"/model/tied_embeddings", "1", "it must be true or false"},
    {"/model/position_encoding", R"("rotary")", "unknown position_encoding \"rotary\""},
    {"/model/embd_pdrop", "2", "0 to 0.99"},
    {"/model/extra", "2", "model.extra is not a known key"},
    {"/end_of_text", "10", "from -1 to 9"},
    {"/config", "[]", "it must be an object"},
    {"/state", "1", "it must be an object"},
    {"/environment/threads", "4", "environment.threads is 4; it must be a text"},
    {"/data_fingerprint", "{}", "it must be a text"},
    {"/files", "{}", "it must be a list"},
    {"/files/0", "7", "files[0] is 7; it must be an object"},
    {"/files/0/name", R"("../a.safetensors")", "file name \"../a.safetensors\" is not allowed"},
    {"/files/0/name", R"("/etc/passwd")", "is not allowed"},
    {"/files/0/name", R"("tokenizer/../../x")", "is not allowed"},
    {"/files/0/name", R"("sub/a")", "is not allowed"},
    {"/files/0/name", R"("..")", "is not allowed"},
    {"/files/0/name", R"("")", "is not allowed"},
    {"/files/0/name", R"("a\\b")", "is not allowed"},
    {"/files/0/name", R"("a\u0000b")", "is not allowed"},
    {"/files/0/name", R"("manifest.json")", "is not allowed"},
    {"/files/0/name", R"("tokenizer/merges.txt")", "is listed twice"},
    {"/files/0/bytes", "-5", "files[0].bytes is -5"},
    {"/files/0/bytes", "67", "reaches beyond a.safetensors of 67 bytes"},
    {"/files/0/checksum", R"("abc")", "checksum of 32 hexadecimal digits"},
    {"/files/0/mode", "1", "files[0].mode is not a known key"},
    {"/tensors", "[]", "it must be an object"},
    {"/tensors/u/file", R"("b.safetensors")", "which is not in the table of files"},
    {"/tensors/u/type", R"("F8")", "unknown element type \"F8\""},
    {"/tensors/u/shape", "[2,-3]", "tensors.u.shape[1] is -3"},
    {"/tensors/u/shape", "[2,3.0]", "tensors.u.shape[1] is 3.0"},
    {"/tensors/u/shape", "[1,1,1,1,6]", "it must be a list of at most 4 entries"},
    {"/tensors/u/shape", "[4294967296,4294967296]", "overflows 64 bits"},
    {"/tensors/u/shape", "[7]", "overlap in a.safetensors"},
    {"/tensors/u/offset", "9223372036854775807", "reaches beyond"},
    {"/tensors/u/offset", "-1", "tensors.u.offset is -1"},
    {"/tensors/u/checksum", R"("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")", "hexadecimal"},
    {"/tensors/u/checksum", "remove", "tensors.u.checksum is missing"},
};

}  // namespace

TEST_CASE("manifest: everything comes back") {
  const Manifest m = full_manifest();
  const Manifest back = parse_manifest(to_text(m), "m");
  CHECK(to_text(back) == to_text(m));
  CHECK(back.step == 7);
  CHECK(back.consumed_samples == 4096);
  CHECK(back.model.n_embd == 4);
  CHECK(back.end_of_text == 9);
  CHECK(back.environment == m.environment);
  CHECK(Json::parse(back.config) == Json::parse(m.config));
  CHECK(back.find("u")->bytes == 24);
  CHECK(back.find("w")->bytes == 4);
  CHECK(back.find("v") == nullptr);
  CHECK(back.total_bytes() == 105);
}

TEST_CASE("manifest: every key of the model comes back") {
  Manifest m = full_manifest();
  const auto other = [](const model::ModelKey& key) {
    if (const auto* number = std::get_if<double*>(&key.value))
      **number = (key.least + key.most) / 2;
    if (const auto* count = std::get_if<Index*>(&key.value)) **count *= 2;
    if (const auto* flag = std::get_if<bool*>(&key.value)) **flag = !**flag;
    if (const auto* text = std::get_if<std::string*>(&key.value)) **text = key.choices.back();
  };
  for (const model::ModelKey& key : model::model_keys(m.model)) other(key);
  Manifest back = parse_manifest(to_text(m), "m");
  const auto before = model::model_keys(m.model), after = model::model_keys(back.model);
  for (std::size_t i = 0; i < before.size(); ++i) {
    INFO(before[i].name);
    std::visit(
        [&](const auto* value) {
          using Value = std::remove_cvref_t<decltype(*value)>;
          CHECK(*value == *std::get<Value*>(after[i].value));
        },
        before[i].value);
  }
}

TEST_CASE("manifest: each impossible value is refused with its key and value") {
  REQUIRE(kCases.size() >= 50);
  for (const Case& c : kCases) {
    INFO(c.pointer << " = " << c.value);
    const std::string message =
        error_of([&] { parse_manifest(changed(c.pointer, c.value), "m.json"); });
    CHECK_THAT(message, Catch::Contains(c.message));
    CHECK_THAT(message, Catch::StartsWith("m.json"));
    CHECK(message.size() < 500);
  }
}

TEST_CASE("manifest: malformed text is refused") {
  const std::string good = to_text(full_manifest());
  const std::pair<std::string, std::string> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"null", "the file is null; it must be an object"},
      {"[]", "the file is []; it must be an object"},
      {std::string(100'000, '['), "nested deeper than 64"},
      {good + "x", "not valid JSON"},
      {good + "\n", "does not end with its checksum"},
      {good + std::string("\0", 1), "zero byte"},
      {R"({"format": "chimera-checkpoint", "version": 1})", "does not end with its checksum"},
      {R"({"format": "chimera-checkpoint", "version": 1, "version": 1})", "stands twice"},
      {"{\"format\": \"\xc3\"}", "not valid JSON"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text.substr(0, 60));
    CHECK_THAT(error_of([&] { parse_manifest(text, "m"); }), Catch::Contains(message));
  }
}

TEST_CASE("manifest: any flipped bit and any cut is refused") {
  const std::string good = to_text(full_manifest());
  std::size_t accepted = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      parse_manifest(text, "m");
      ++accepted;
    } catch (const Error&) {
    }
  };
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int bit : {0, static_cast<int>(i % 7) + 1}) {
      std::string text = good;
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      attempt(text);
    }
  for (std::size_t n = 0; n < good.size(); ++n) attempt(good.substr(0, n));
  CHECK(accepted == 0);
}

TEST_CASE("manifest: a million keys are refused in bounded time") {
  // Quadratic handling of keys would take minutes here and run into the test's deadline.
  std::string text = R"({"format": "chimera-checkpoint", "version": 1, "environment": {)";
  for (int i = 0; i < 1'000'000; ++i) text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":\"\"";
  CHECK_THAT(error_of([&] { parse_manifest(seal(text + "}}"), "m"); }),
             Catch::Contains("step is missing"));
}

TEST_CASE("manifest: a worker's record comes back, and two workers with one tensor are refused") {
  checkpoint::Shard shard{full_manifest().tensors, full_manifest().files};
  const std::string record = to_record(shard);
  CHECK(to_record(checkpoint::parse_record(record)) == record);
  TemporaryFolder folder;
  checkpoint::CheckpointWriter writer(folder.path(), 1, "run");
  writer.begin(0, 2);
  Numbers numbers(1, 0);
  const std::vector<std::string> records = {writer.write_shard(0, 2, numbers.tensors()),
                                            writer.write_shard(1, 2, numbers.tensors())};
  CHECK_THAT(error_of([&] { writer.commit(some_manifest(), records); }),
             Catch::Contains("is in both optimizer-00001-of-00002.safetensors and "
                             "optimizer-00002-of-00002.safetensors"));
}

}  // namespace chimera::test
