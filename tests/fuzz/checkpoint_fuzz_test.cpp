// Hostile checkpoints: every input is refused by an Error or, where it is accepted, is consistent.
// Under the address and undefined-behaviour sanitizers nothing else may happen.
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "chimera/checkpoint/manifest.h"
#include "chimera/checkpoint/safetensors.h"
#include "mutate.h"
#include "support/support.h"

namespace chimera::test {
namespace {

using checkpoint::Manifest;
using checkpoint::SafetensorsFile;

constexpr int kMutations = 3000;

std::string with_length(const std::string& header) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header;
}

struct Seed {
  std::string header;
  std::size_t data;
};
const std::vector<Seed> kSafetensors = {
    {"{}", 0},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8},
    {R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]},)"
     R"("c":{"dtype":"I32","shape":[],"data_offsets":[48,52]},)"
     R"("d":{"dtype":"F16","shape":[0,9],"data_offsets":[52,52]},)"
     R"("e":{"dtype":"BOOL","shape":[3],"data_offsets":[52,55]}}   )",
     55},
};

// Opens the file and touches every byte of it that belongs to a tensor.
void open_safetensors(const Path& path) {
  const SafetensorsFile file(path);
  Index sum = 0;
  for (const auto& entry : file.entries()) {
    if (byte_count(entry) != entry.bytes || &file.at(entry.name) != &entry)
      throw std::runtime_error("an entry is inconsistent: " + entry.name);
    if (checksum_of(file.bytes(entry)).size() != 32) throw std::runtime_error("no checksum");
    sum += entry.bytes;
  }
  if (sum > static_cast<Index>(std::filesystem::file_size(path)))
    throw std::runtime_error("the tensors are larger than their file");
}

Manifest small_manifest() {
  Manifest m;
  m.step = 12;
  m.model.n_layer = 2, m.model.n_head = 2, m.model.n_embd = 4;
  m.model.n_positions = 8, m.model.vocab_size = 10;
  m.config = R"({"data": {"train": ["a", "b"], "seed": 1}, "rate": 6e-4})";
  m.environment = {{"layout", "D 4"}};
  const std::string sum(32, '0');
  m.files = {{"a.safetensors", 200, sum}, {"tokenizer/vocab.json", 5, sum}};
  m.tensors.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    m.tensors[i].name = std::string("tensor.") + static_cast<char>('a' + i);
    m.tensors[i].shape = {2, 3};
    m.tensors[i].offset = 40 + 24 * static_cast<Index>(i);
    m.tensors[i].file = "a.safetensors";
    m.tensors[i].checksum = sum;
  }
  return m;
}

void same_when_written_again(const std::string& text) {
  const Manifest m = checkpoint::parse_manifest(text, "m");
  const std::string again = to_text(m);
  if (to_text(checkpoint::parse_manifest(again, "m")) != again)
    throw std::runtime_error("an accepted manifest changes when it is written again");
}

}  // namespace

TEST_CASE("safetensors: mutated files are refused or consistent") {
  const int memory = memfd_create("chimera-fuzz", MFD_CLOEXEC);  // a disk would take a minute
  REQUIRE(memory >= 0);
  const Path path = "/proc/self/fd/" + std::to_string(memory);
  std::vector<std::string> whole, headers;
  for (const Seed& seed : kSafetensors) {
    whole.push_back(with_length(seed.header) + std::string(seed.data, '\1'));
    headers.push_back(seed.header);
  }
  const FuzzCount raw = replay(whole, kMutations, [&](const std::string& input) {
    spit(path, input);
    open_safetensors(path);
  });
  // Headers alone, with a length that fits: these get past the first checks.
  const FuzzCount deep = replay(headers, kMutations, [&](const std::string& input) {
    const std::size_t data = input.find("\"e\"") != input.npos ? 55 : input == "{}" ? 0 : 8;
    spit(path, with_length(input) + std::string(data, '\1'));
    open_safetensors(path);
  });
  // Seeds are accepted; a mutation seldom is: a changed name or value is no error.
  CHECK(raw.accepted >= 3);
  CHECK(deep.accepted >= 3);
  CHECK(raw.refused > 3 * kMutations / 2);
  CHECK(deep.refused > 3 * kMutations / 2);
  close(memory);
}

TEST_CASE("manifest: mutated texts are refused, resealed ones are refused or consistent") {
  const std::string good = to_text(small_manifest());
  const FuzzCount raw = replay({good}, 5 * kMutations, same_when_written_again);
  CHECK(raw.accepted >= 1);  // the seed, and mutations that happen to change nothing
  const std::string open_text = good.substr(0, good.rfind(",\n\"checksum\"")) + "}";
  const FuzzCount deep = replay({open_text}, 5 * kMutations, [](const std::string& input) {
    same_when_written_again(checkpoint::seal(input));
  });
  CHECK(deep.accepted >= 1);
  CHECK(deep.refused > 5 * kMutations / 2);
}

TEST_CASE("record of a worker: mutated ones are refused or come back as they are") {
  const Manifest m = small_manifest();
  const FuzzCount count =
      replay({checkpoint::to_record(checkpoint::Shard{m.tensors, m.files})}, kMutations,
             [](const std::string& input) {
               const std::string again = checkpoint::to_record(checkpoint::parse_record(input));
               if (checkpoint::to_record(checkpoint::parse_record(again)) != again)
                 throw std::runtime_error("an accepted record changes when it is written again");
             });
  CHECK(count.accepted >= 1);
  CHECK(count.refused > kMutations / 2);
}

}  // namespace chimera::test
