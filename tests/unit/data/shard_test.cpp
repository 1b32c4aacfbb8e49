#include "chimera/data/shard.h"

#include "data_support.h"

using namespace chimera;
using namespace chimera::data;
using namespace chimera::test;

namespace {

std::string opening_error(const TemporaryFolder& folder, const std::string& bytes) {
  spit(folder / "s.bin", bytes);
  return error_of([&] { Shard shard(folder / "s.bin"); });
}

std::vector<std::uint32_t> read_all(const std::filesystem::path& path) {
  const Shard shard(path);
  std::vector<std::uint32_t> out(static_cast<std::size_t>(shard.tokens()));
  shard.read(0, shard.tokens(), out.data());
  return out;
}

}  // namespace

TEST_CASE("a shard is byte for byte llm.c's") {
  TemporaryFolder folder;
  ShardWriter narrow(folder.path(), "a", TokenWidth::U16, 65536, 100);
  narrow.append(std::vector<TokenId>{1, 65535, 256});
  narrow.close();
  CHECK(slurp(folder / "a-000000.bin") ==
        shard_bytes<std::uint16_t>(20240520, 1, 3, {1, 65535, 256}));
  ShardWriter wide(folder.path(), "b", TokenWidth::U32, 70000, 100);
  wide.append(std::vector<TokenId>{1, 69999});
  wide.close();
  CHECK(slurp(folder / "b-000000.bin") == shard_bytes<std::uint32_t>(20240801, 7, 2, {1, 69999}));
}

TEST_CASE("the writer fills shards exactly, whatever the sizes of the appended runs") {
  for (const Index shard_tokens : {1, 3, 7, 1000}) {
    TemporaryFolder folder;
    ShardWriter writer(folder.path(), "t", TokenWidth::U16, 1000, shard_tokens);
    std::vector<std::uint32_t> expected, found;
    for (TokenId run = 0; run < 12; ++run) {
      const std::vector<TokenId> tokens(static_cast<std::size_t>(run), run);
      writer.append(tokens);
      expected.insert(expected.end(), tokens.begin(), tokens.end());
    }
    const std::vector<ShardInfo> shards = writer.close();
    CHECK(writer.tokens() == 66);
    CHECK(shards.size() == static_cast<std::size_t>(ceil_div(Index{66}, shard_tokens)));
    for (std::size_t i = 0; i < shards.size(); ++i) {
      CHECK(shards[i].tokens == std::min(shard_tokens, 66 - static_cast<Index>(i) * shard_tokens));
      CHECK(shards[i].checksum == checksum_of_file(folder / shards[i].name));
      const auto tokens = read_all(folder / shards[i].name);
      found.insert(found.end(), tokens.begin(), tokens.end());
    }
    CHECK(found == expected);
  }
}

TEST_CASE("ids never wrap at writing") {
  TemporaryFolder folder;
  CHECK(token_width_for(65536) == TokenWidth::U16);
  CHECK(token_width_for(65537) == TokenWidth::U32);
  CHECK_THAT(error_of([&] { ShardWriter(folder.path(), "t", TokenWidth::U16, 65537, 10); }),
             Catch::Contains("65537 ids does not fit uint16"));
  ShardWriter writer(folder.path(), "t", TokenWidth::U16, 300, 10);
  CHECK_THAT(error_of([&] {
               writer.append(std::vector<TokenId>{1, 300});
             }),
             Catch::Contains("token id 300"));
  CHECK_THAT(error_of([&] { writer.append(std::vector<TokenId>{-1}); }),
             Catch::Contains("token id -1"));
  CHECK(writer.tokens() == 0);
}

TEST_CASE("a shard still being written is accepted by no reader") {
  TemporaryFolder folder;
  ShardWriter writer(folder.path(), "t", TokenWidth::U16, 300, 10);
  writer.append(std::vector<TokenId>{1, 2, 3});
  CHECK_THAT(error_of([&] { Shard shard(folder / "t-000000.bin"); }),
             Catch::Contains("not a token shard"));
}

TEST_CASE("a bad shard is refused with the reason and both sizes") {
  TemporaryFolder folder;
  const std::string good = counting_shard(10);
  CHECK(opening_error(folder, good).empty());
  CHECK_THAT(opening_error(folder, good.substr(0, good.size() - 1)),
             Catch::Contains("has 1043 bytes") && Catch::Contains("1044 bytes") &&
                 Catch::Contains("cut short"));
  CHECK_THAT(opening_error(folder, good + "x"), Catch::Contains("has 1045 bytes") &&
                                                    Catch::Contains("1044 bytes") &&
                                                    Catch::Contains("too long"));
  CHECK_THAT(opening_error(folder, good.substr(0, 1023)), Catch::Contains("has 1023 bytes"));
  CHECK_THAT(opening_error(folder, ""), Catch::Contains("has 0 bytes"));
  const std::vector<std::uint16_t> ten(10);
  CHECK_THAT(opening_error(folder, shard_bytes(20240522, 1, 10, ten)),
             Catch::Contains("not a token shard") && Catch::Contains("20240522"));
  CHECK_THAT(opening_error(folder, shard_bytes(20240520, 2, 10, ten)),
             Catch::Contains("version 2"));
  CHECK_THAT(opening_error(folder, shard_bytes(20240801, 7, 10, ten)),
             Catch::Contains("uint32") && Catch::Contains("1064 bytes"));
  CHECK_THAT(opening_error(folder, shard_bytes(20240520, 1, -1, ten)),
             Catch::Contains("counts -1 tokens"));
  CHECK_THAT(opening_error(folder, shard_bytes(20240520, 1, 0x7fffffff, ten)),
             Catch::Contains("4294968318 bytes"));
}

TEST_CASE("reads stay within the shard") {
  TemporaryFolder folder;
  spit(folder / "s.bin", counting_shard(10, 5));
  const Shard shard(folder / "s.bin");
  std::uint32_t out[10];
  shard.read(7, 3, out);
  CHECK(out[0] == 12);
  CHECK(out[2] == 14);
  CHECK(shard.largest_id() == 14u);
  for (const auto& [begin, count] : std::vector<std::pair<Index, Index>>{
           {8, 3}, {-1, 2}, {11, 0}, {0, -1}, {std::numeric_limits<Index>::max(), 2}})
    CHECK_THAT(error_of([&, b = begin, c = count] { shard.read(b, c, out); }),
               Catch::Contains("the shard has 10"));
}
