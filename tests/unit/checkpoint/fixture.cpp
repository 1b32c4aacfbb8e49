#include "fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace chimera::test {

using checkpoint::Kind;
using checkpoint::NamedTensor;

MemoryFolder::MemoryFolder() {
  std::string pattern = "/dev/shm/chimera-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    pattern = (std::filesystem::temp_directory_path() / "chimera-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot make a temporary folder");
  }
  path_ = pattern;
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Numbers::Numbers(Index step, int writer) {
  const auto add = [&](const std::string& name, Index rows, Index columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(step) + 0.001f * static_cast<float>(i + 31 * owned_.size());
    owned_.push_back({name, std::move(values), rows});
  };
  const std::string block = "transformer.h." + std::to_string(writer) + ".";
  for (const char* prefix : {"", "adam.m.", "adam.v."}) {
    add(prefix + block + "attn.c_attn.weight", 4, 12);
    add(prefix + block + "attn.c_attn.bias", 1, 12);
    if (writer == 0) add(prefix + std::string("transformer.wte.weight"), 10, 4);
  }
}

std::vector<NamedTensor> Numbers::tensors() {
  std::vector<NamedTensor> out;
  for (Owned& o : owned_) {
    const Index columns = static_cast<Index>(o.values.size()) / o.rows;
    Tensor tensor(o.values.data(), DType::F32, {o.rows, columns});
    if (o.rows == 1) tensor = tensor.reshaped({columns});
    out.push_back({o.name, tensor, o.name.starts_with("adam.") ? Kind::Moment : Kind::Weight});
  }
  return out;
}

checkpoint::Manifest some_manifest() {
  checkpoint::Manifest m;
  m.consumed_samples = 4096;
  m.model.n_layer = 2, m.model.n_head = 2, m.model.n_embd = 4;
  m.model.n_positions = 8, m.model.vocab_size = 10;
  m.end_of_text = 9;
  m.config = R"({"data": {"sequence_length": 8}})";
  m.state = R"({"loss_scale": 1024})";
  m.environment = {{"layout", "D 2, W 1"}, {"threads per worker", "1"}};
  m.data_fingerprint = "data of a test";
  m.tokenizer_fingerprint = "tokenizer of a test";
  return m;
}

Path write_checkpoint(const Path& directory, Index step, Index keep,
                      checkpoint::CheckpointWriter::Hook hook, Index salt) {
  checkpoint::CheckpointWriter writer(directory, step, "test-run", std::move(hook));
  try {
    writer.begin(10'000, 2);
    std::vector<std::string> records;
    for (const int w : {0, 1}) {
      Numbers numbers(step + salt, w);
      records.push_back(writer.write_shard(w, 2, numbers.tensors()));
    }
    const std::vector<checkpoint::ExtraFile> extra = {{"tokenizer/vocab.json", "{\"a\": 0}\n"},
                                                      {"tokenizer/merges.txt", "a b\n"}};
    const Path path = writer.commit(some_manifest(), records, extra);
    writer.retire(keep);
    return path;
  } catch (...) {
    writer.abandon();
    throw;
  }
}

bool holds_numbers_of(const checkpoint::Checkpoint& checkpoint, Index step, Index salt) {
  for (const int w : {0, 1}) {
    Numbers numbers(step + salt, w);
    for (const NamedTensor& expected : numbers.tensors()) {
      std::vector<std::byte> memory(static_cast<std::size_t>(expected.tensor.bytes()));
      Tensor got(memory.data(), DType::F32, {expected.tensor.size()});
      if (expected.tensor.rank() == 2)
        got = got.reshaped({expected.tensor.dim(0), expected.tensor.dim(1)});
      checkpoint.read(expected.name, got);
      if (std::memcmp(memory.data(), expected.tensor.raw(), memory.size()) != 0) return false;
    }
  }
  return true;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  FAIL("no error was thrown");
  return "";
}

std::vector<std::string> names_in(const Path& directory) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace chimera::test
