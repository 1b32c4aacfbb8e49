#include "chimera/data/dataset.h"

#include <cstdio>

#include "chimera/base/log.h"
#include "data_support.h"

using namespace chimera;
using namespace chimera::data;
using namespace chimera::test;

namespace {

struct Sample {
  std::vector<std::int32_t> inputs, targets;
};

Sample sample_of(const Dataset& dataset, Index i) {
  const std::size_t T = static_cast<std::size_t>(dataset.sequence_length());
  Sample sample{std::vector<std::int32_t>(T, -1), std::vector<std::int32_t>(T, -1)};
  dataset.read(i, sample.inputs.data(), sample.targets.data());
  return sample;
}

std::string path_of(const TemporaryFolder& folder, const std::string& name) {
  return (folder / name).string();
}

std::string opening_error(const std::vector<std::string>& patterns, Index T, Index vocabulary) {
  return error_of([&] { Dataset dataset(patterns, T, vocabulary); });
}

}  // namespace

TEST_CASE("every ragged shard length gives (n - 1) / T samples with targets one token on") {
  TemporaryFolder folder;
  constexpr Index T = 8;
  for (std::int32_t n = 1; n <= 3 * T + 2; ++n) {
    spit(folder / "s.bin", counting_shard(n, 100));
    CAPTURE(n);
    if (n <= T) {
      CHECK_THAT(opening_error({path_of(folder, "s.bin")}, T, 1000),
                 Catch::Contains("s.bin has " + std::to_string(n) + " tokens; one sample needs 9"));
      continue;
    }
    const Dataset dataset({path_of(folder, "s.bin")}, T, 1000);
    REQUIRE(dataset.samples() == (n - 1) / T);
    for (Index i = 0; i < dataset.samples(); ++i) {
      const Sample sample = sample_of(dataset, i);
      for (Index t = 0; t < T; ++t) {
        REQUIRE(sample.inputs[static_cast<std::size_t>(t)] == 100 + i * T + t);
        REQUIRE(sample.targets[static_cast<std::size_t>(t)] == 100 + i * T + t + 1);
      }
    }
    CHECK_THAT(error_of([&] { sample_of(dataset, dataset.samples()); }),
               Catch::Contains("the data set has"));
    CHECK_THAT(error_of([&] { sample_of(dataset, -1); }), Catch::Contains("sample -1"));
  }
}

TEST_CASE("samples never cross shards, short shards among longer ones are left out") {
  set_log_level(LogLevel::Off);
  TemporaryFolder folder;
  spit(folder / "a-0.bin", counting_shard(17, 0));    // 2 samples of 8
  spit(folder / "a-1.bin", counting_shard(8, 100));   // none
  spit(folder / "a-2.bin", counting_shard(16, 200));  // 1
  spit(folder / "b.bin",
       shard_bytes<std::uint32_t>(20240801, 7, 9, {70000, 1, 2, 3, 4, 5, 6, 7, 8}));
  const Dataset dataset({path_of(folder, "a-*.bin"), path_of(folder, "b.bin")}, 8, 70001);
  set_log_level(LogLevel::Info);
  CHECK(dataset.samples() == 4);
  CHECK(dataset.tokens() == 42);
  std::vector<std::int32_t> first;
  for (Index i = 0; i < 4; ++i) first.push_back(sample_of(dataset, i).inputs[0]);
  CHECK(first == std::vector<std::int32_t>{0, 8, 200, 70000});
  CHECK(sample_of(dataset, 3).targets.back() == 8);
  CHECK_THAT(opening_error({path_of(folder, "a-*.bin")}, 17, 1000),
             Catch::Contains("none of the 3 shards"));
}

TEST_CASE("an id outside the vocabulary is an error with file and byte, when it is read") {
  TemporaryFolder folder;
  for (const bool wide : {false, true}) {
    std::vector<std::uint32_t> ids(17, 5);
    ids[12] = 50;  // input and target of sample 1
    ids[16] = 60;  // the last target alone
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    spit(folder / "s.bin",
         wide ? shard_bytes(20240801, 7, 17, ids) : shard_bytes(20240520, 1, 17, narrow));
    const Dataset dataset({path_of(folder, "s.bin")}, 8, 50),
        larger({path_of(folder, "s.bin")}, 8, 60);
    CHECK(sample_of(dataset, 0).inputs[0] == 5);
    const std::string error = error_of([&] { sample_of(dataset, 1); });
    CHECK_THAT(error, Catch::Contains("s.bin: token id 50 at byte " +
                                      std::to_string(1024 + 12 * (wide ? 4 : 2))));
    CHECK_THAT(error, Catch::Contains("size 50"));
    CHECK(error_of([&] { dataset.check_all_ids(); }) == error);
    CHECK_THAT(
        error_of([&] { sample_of(larger, 1); }),
        Catch::Contains("token id 60 at byte " + std::to_string(1024 + 16 * (wide ? 4 : 2))));
  }
  // Ids over 2^31 are no negative numbers.
  spit(folder / "s.bin", shard_bytes<std::uint32_t>(20240801, 7, 3, {1, 0xffffffffu, 2}));
  CHECK_THAT(error_of([&] { sample_of(Dataset({path_of(folder, "s.bin")}, 2, 100000), 0); }),
             Catch::Contains("token id 4294967295"));
}

TEST_CASE("a shard over 5 GiB is read at its end") {
  TemporaryFolder folder;
  constexpr std::int32_t tokens = 1'400'000'001;  // 5.6 GB of uint32: offsets pass 2^31 and 2^32
  const std::filesystem::path path = folder / "large.bin";
  spit(path, shard_bytes<std::uint32_t>(20240801, 7, tokens, {}));
  std::error_code error;
  std::filesystem::resize_file(path, 1024 + std::uintmax_t{4} * tokens, error);
  INFO("the temporary folder " << folder.path() << " takes no sparse file of 5.6 GB ("
                               << error.message() << "); set TMPDIR to one that does");
  REQUIRE(!error);
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  REQUIRE(file != nullptr);
  const std::uint32_t last[2] = {70001, 70002};
  REQUIRE(fseeko(file, off_t{1024} + off_t{4} * (tokens - 2), SEEK_SET) == 0);
  REQUIRE(std::fwrite(last, 1, sizeof last, file) == sizeof last);
  REQUIRE(std::fclose(file) == 0);
  const Dataset dataset({path.string()}, 1000, 100000);
  CHECK(dataset.samples() == 1400000);
  const Sample sample = sample_of(dataset, 1399999);
  CHECK(sample.inputs[998] == 0);
  CHECK(sample.inputs[999] == 70001);
  CHECK(sample.targets[998] == 70001);
  CHECK(sample.targets[999] == 70002);
  CHECK(dataset.fingerprint().size() == 32);
}

TEST_CASE("patterns without files, files named twice and no files are errors") {
  TemporaryFolder folder;
  spit(folder / "s.bin", counting_shard(20));
  const std::string file = path_of(folder, "s.bin");
  CHECK_THAT(opening_error({path_of(folder, "none-*.bin")}, 8, 100), Catch::Contains("none-*.bin"));
  CHECK_THAT(opening_error({file, path_of(folder, "*.bin")}, 8, 100),
             Catch::Contains("named twice"));
  CHECK_THAT(opening_error({}, 8, 100), Catch::Contains("no token shards"));
  CHECK_THAT(opening_error({file}, 0, 100), Catch::Contains("sequence length of 0"));
}

TEST_CASE("the fingerprint tells other data apart, and not other names or lengths of sequence") {
  TemporaryFolder folder;
  const auto fingerprint = [&](const std::string& name, Index T) {
    return Dataset({path_of(folder, name)}, T, 65536).fingerprint();
  };
  spit(folder / "a.bin", counting_shard(30000));
  spit(folder / "b.bin", counting_shard(30000));
  spit(folder / "longer.bin", counting_shard(30001));
  CHECK(fingerprint("a.bin", 8) == fingerprint("b.bin", 16));
  CHECK(fingerprint("a.bin", 8) != fingerprint("longer.bin", 8));
  for (const std::size_t byte :
       {std::size_t{1024}, std::size_t{1024 + 30000}, std::size_t{1024 + 59999}}) {
    std::string other = counting_shard(30000);
    other[byte] = static_cast<char>(other[byte] ^ 1);
    spit(folder / "b.bin", other);
    CHECK(fingerprint("a.bin", 8) != fingerprint("b.bin", 8));
  }
}
