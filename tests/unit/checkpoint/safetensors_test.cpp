#include "chimera/checkpoint/safetensors.h"

#include <cstring>

#include "fixture.h"
#include "support/safetensors_read.h"

namespace chimera::test {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::SafetensorsWriter;
using checkpoint::TensorShape;

std::string with_length(std::uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), 8) + rest;
}
// A file of this header and `data` zero bytes.
std::string file_of(const std::string& header, std::size_t data) {
  return with_length(header.size(), header + std::string(data, '\0'));
}

std::string entry(const std::string& name, const std::string& rest) {
  return "{\"" + name + "\":{" + rest + "}}";
}
const std::string kGood = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

struct Malformed {
  std::string what, content, message;
};

std::vector<Malformed> malformed_files() {
  const auto two = [](const std::string& a, const std::string& b, std::size_t data) {
    return file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + b + "}}",
                   data);
  };
  const auto one = [](const std::string& fields, std::size_t data = 8) {
    return file_of(entry("a", fields), data);
  };
  const std::string long_shape = "[" + std::string(32, '1') + "]";
  std::string many = "[1";
  for (int i = 0; i < 40; ++i) many += ",1";
  many += "]";
  return {
      {"empty file", "", "has 0 bytes"},
      {"seven bytes", "1234567", "has 7 bytes"},
      {"no header", with_length(0, ""), "does not begin with {"},
      {"header beyond the end", with_length(100, "{}"), "reaches beyond the end"},
      {"header of 2^63", with_length(std::uint64_t{1} << 63, "{}"), "exceeds 100000000"},
      {"header of 2^64 - 1", with_length(~std::uint64_t{0}, "{}"), "exceeds 100000000"},
      {"header one over the limit", with_length(100'000'001, "{}"), "exceeds 100000000"},
      {"text file", "this is just some text, long enough to be read", "exceeds 100000000"},
      {"header begins with a space", file_of(" {}", 0), "does not begin with {"},
      {"header is a list", file_of("[]", 0), "does not begin with {"},
      {"header not closed", file_of("{", 0), "not valid JSON"},
      {"two values", file_of("{}{}", 0), "not valid JSON"},
      {"garbage after a zero byte", file_of(std::string("{}\0{", 4), 0), "zero byte"},
      {"trailing comma", file_of("{\"a\":{" + kGood + "},}", 8), "not valid JSON"},
      {"not UTF-8", file_of(entry("\xff", kGood), 8), "not valid JSON"},
      {"cut inside a character", file_of(entry("\xe2\x82", kGood), 8), "not valid JSON"},
      {"lone surrogate", file_of(entry("\\ud800", kGood), 8), "not valid JSON"},
      {"tensor is a number", file_of(R"({"a":1})", 0), "unexpected a number"},
      {"tensor is null", file_of(R"({"a":null})", 0), "unexpected null"},
      {"tensor is a list", file_of(R"({"a":[0]})", 0), "unexpected a list"},
      {"deep nesting", file_of("{\"a\":" + std::string(5000, '['), 0), "unexpected a list"},
      {"deep objects", file_of(R"({"a":{"dtype":{"x":{}}}})", 0), "unexpected an object"},
      {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])"), "has no dtype"},
      {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])"), "has no shape"},
      {"no offsets", one(R"("dtype":"F32","shape":[2])"), "has no data_offsets"},
      {"unknown key", one(kGood + R"(,"x":1)"), "unknown key \"x\""},
      {"dtype twice", one(kGood + R"(,"dtype":"F32")"), "\"dtype\" stands twice"},
      {"tensor twice", file_of("{\"a\":{" + kGood + "},\"a\":{" + kGood + "}}", 8), "stands twice"},
      {"same name escaped", file_of("{\"a\":{" + kGood + "},\"\\u0061\":{" + kGood + "}}", 8),
       "stands twice"},
      {"unknown dtype", one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"),
       "unknown element type \"F33\""},
      {"dtype a number", one(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"),
       "unexpected a number"},
      {"shape a text", one(R"("dtype":"F32","shape":"2","data_offsets":[0,8])"),
       "unexpected the text \"2\""},
      {"negative extent", one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
       "unexpected a negative number"},
      {"fractional extent", one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
       "not a whole 64-bit count"},
      {"extent of 32 digits",
       one(R"("dtype":"F32","shape":)" + long_shape + R"(,"data_offsets":[0,8])"),
       "not a whole 64-bit count"},
      {"extent of 2^63", one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
       "not a signed 64-bit count"},
      {"41 dimensions", one(R"("dtype":"F32","shape":)" + many + R"(,"data_offsets":[0,4])", 4),
       "more than 16 numbers"},
      {"nested shape", one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"),
       "unexpected a list"},
      {"size overflows",
       one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
       "overflows 64 bits"},
      {"size wraps to 8 bytes",
       one(R"("dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8])"),
       "overflows 64 bits"},
      {"one offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "has 1 numbers"},
      {"three offsets", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"),
       "has 3 numbers"},
      {"negative offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
       "unexpected a negative number"},
      {"ends before it begins", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       "before it begins"},
      {"ends beyond the file", one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"),
       "cut off"},
      {"size unequal to shape", one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
       "needs 12 bytes but has 8"},
      {"hole at the start", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,16])", 16),
       "leaves a hole"},
      {"hole between", two("[0,8]", "[12,20]", 20), "leaves a hole"},
      {"overlap", two("[0,8]", "[4,12]", 12), "overlaps"},
      {"same bytes twice", two("[0,8]", "[0,8]", 8), "overlaps"},
      {"bytes after the last", one(kGood, 9), "1 bytes before the end"},
      {"data without tensors", file_of("{}", 4), "4 bytes before the end"},
      {"metadata a text", file_of(R"({"__metadata__":"x"})", 0), "unexpected the text"},
      {"metadata of numbers", file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__"},
      {"metadata nested", file_of(R"({"__metadata__":{"a":{}}})", 0), "unexpected an object"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "stands twice"},
      {"metadata key twice", file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "stands twice"},
  };
}

}  // namespace

TEST_CASE("safetensors: each of the malformed files is refused with file and reason") {
  TemporaryFolder folder;
  const Path path = folder / "case.safetensors";
  const std::vector<Malformed> cases = malformed_files();
  REQUIRE(cases.size() >= 50);
  for (const Malformed& c : cases) {
    INFO(c.what);
    spit(path, c.content);
    const std::string message = error_of([&] { SafetensorsFile file(path); });
    CHECK_THAT(message, Catch::Contains(c.message));
    CHECK_THAT(message, Catch::Contains("case.safetensors"));
    CHECK(message.size() < 600);  // a hostile name does not fill the screen
  }
}

TEST_CASE("safetensors: a header of very many entries is refused before it fills the memory") {
  TemporaryFolder folder;
  std::string tensors, metadata;
  for (int i = 0; i <= 200'000; ++i)
    tensors += (i ? ",\"" : "{\"") + std::to_string(i) +
               R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  for (int i = 0; i <= 10'000; ++i)
    metadata += (i ? ",\"" : "{\"__metadata__\":{\"") + std::to_string(i) + R"(":"")";
  spit(folder / "f", file_of(tensors + "}", 0));
  CHECK_THAT(error_of([&] { SafetensorsFile file(folder / "f"); }),
             Catch::Contains("more than 200000 tensors"));
  spit(folder / "f", file_of(metadata + "}}", 0));
  CHECK_THAT(error_of([&] { SafetensorsFile file(folder / "f"); }),
             Catch::Contains("more than 10000 entries of __metadata__"));
}

TEST_CASE("safetensors: an error names the tensor and the byte of its entry") {
  TemporaryFolder folder;
  const std::string good = R"("first":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)";
  const std::string bad = R"("second":{"dtype":"F32","shape":[1],"data_offsets":[8,16]})";
  spit(folder / "f", file_of("{" + good + bad + "}", 16));
  // The entry's object begins after 8 bytes of length, the brace and `good`, the name and a colon;
  // the parser has then taken its first character.
  const std::size_t at = 8 + 1 + good.size() + std::strlen("\"second\":{");
  CHECK(error_of([&] { SafetensorsFile file(folder / "f"); }) ==
        (folder / "f").string() + ", byte " + std::to_string(at) +
            ": tensor \"second\" of F32 (1) needs 4 bytes but has 8");
}

TEST_CASE("safetensors: valid oddities are accepted") {
  TemporaryFolder folder;
  const Path path = folder / "f";
  SECTION("scalars, empty tensors, padding, metadata, tensors out of order") {
    spit(path, file_of(R"({"z":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
                       R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]},)"
                       R"("a":{"data_offsets":[0,8],"shape":[1,2],"dtype":"F32"},)"
                       R"("__metadata__":{"format":"pt"}}      )",
                       12));
    const SafetensorsFile file(path);
    REQUIRE(file.entries().size() == 3);
    CHECK(file.entries()[0].name == "a");
    CHECK(file.at("e").bytes == 0);
    CHECK(file.at("z").shape.empty());
    CHECK(file.at("z").bytes == 4);
    CHECK(file.metadata().at("format") == "pt");
    CHECK(file.find("q") == nullptr);
  }
  SECTION("no tensors") {
    spit(path, file_of("{}", 0));
    CHECK(SafetensorsFile(path).entries().empty());
  }
  SECTION("element types without use here are listed, and not read") {
    spit(path, file_of(R"({"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},)"
                       R"("w":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})",
                       7));
    const SafetensorsFile file(path);
    CHECK(file.foreign() == std::vector<std::string>{"mask (BOOL)"});
    CHECK(file.find("mask") == nullptr);
    float w = 1;
    file.read("w", Tensor(&w, DType::F32, {1}));  // at an odd address
    CHECK(w == 0);
  }
}

TEST_CASE("safetensors: what is written is read back bit by bit, by an independent reader too") {
  TemporaryFolder folder;
  const Path path = folder / "f.safetensors";
  std::vector<double> wide = {1.5, -2.25};
  std::vector<float> matrix = {1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> tokens = {7, -8};
  SafetensorsWriter writer(path, {{"wide", DType::F64, {2}},
                                  {"none", DType::F32, {0, 5}},
                                  {"mat\"rix é", DType::F32, {2, 3}},
                                  {"tokens", DType::I32, {2}}});
  CHECK(writer.write(std::as_bytes(std::span(wide))));
  const auto bytes = std::as_bytes(std::span(matrix));
  CHECK_FALSE(writer.write(bytes.first(5)));
  CHECK(writer.write(bytes.subspan(5)));
  CHECK(writer.write(std::as_bytes(std::span(tokens))));
  writer.close();

  CHECK(writer.file_checksum() == checksum_of_file(path));
  CHECK(writer.file_bytes() == static_cast<Index>(std::filesystem::file_size(path)));
  const SafetensorsFile file(path);
  REQUIRE(file.entries().size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& e = writer.entries()[i];
    CHECK(file.at(e.name).offset == e.offset);
    CHECK(e.offset % size_of(e.type) == 0);
    CHECK(checksum_of(file.bytes(file.at(e.name))) == writer.tensor_checksums()[i]);
  }
  CHECK(file.metadata().at("format") == "pt");
  std::vector<float> got(6);
  file.read("mat\"rix é", Tensor(got.data(), DType::F32, {2, 3}));
  CHECK(got == matrix);

  auto references = read_references(path);
  CHECK(references.at("wide").values == wide);
  CHECK(references.at("mat\"rix é").f32() == matrix);
  CHECK(references.at("tokens").i32() == tokens);
  CHECK(references.at("none").shape == std::vector<std::int64_t>{0, 5});
}

TEST_CASE("safetensors: misuse is refused") {
  TemporaryFolder folder;
  const Path path = folder / "f";
  const std::vector<float> four(4);
  const auto bytes = std::as_bytes(std::span(four));
  const auto message = [&](std::vector<TensorShape> list, std::vector<std::size_t> writes) {
    return error_of([&] {
      SafetensorsWriter writer(path, std::move(list));
      for (const std::size_t n : writes) writer.write(bytes.first(n));
      writer.close();
    });
  };
  using Catch::Contains;
  CHECK_THAT(message({{"a", DType::F32, {2}}}, {12}), Contains("of 8 bytes has 0 and is given 12"));
  CHECK_THAT(message({{"a", DType::F32, {2}}}, {4}), Contains("not written to its end"));
  CHECK_THAT(message({{"a", DType::F32, {2}}}, {8, 1}), Contains("1 bytes more"));
  CHECK_THAT(message({{"a", DType::F32, {1}}, {"a", DType::F32, {1}}}, {}), Contains("twice"));
  CHECK_THAT(message({{"__metadata__", DType::F32, {1}}}, {}), Contains("reserved"));
  CHECK_THAT(message({{"\xff", DType::F32, {1}}}, {}), Contains("UTF-8"));
  CHECK_THAT(message({{"a", DType::F32, {1}}, {"b", DType::F64, {1}}}, {}), Contains("wider"));
  CHECK_THAT(message({{"a", DType::F32, {-1}}}, {}), Contains("negative"));
  CHECK_THAT(message({{"a", DType::F32, {Index{1} << 62}}}, {}), Contains("overflows"));

  spit(path, file_of(entry("a", kGood), 8));
  const SafetensorsFile file(path);
  std::vector<double> room(2);
  CHECK_THAT(error_of([&] { file.read("a", Tensor(room.data(), DType::F64, {2})); }),
             Contains("tensor \"a\" is F32 (2), but F64 (2) is needed"));
  CHECK_THAT(error_of([&] {
               file.read("a", Tensor(room.data(), DType::F32, {1, 2}));
             }),
             Contains("F32 (1, 2) is needed"));
  CHECK_THAT(error_of([&] { file.at("b"); }), Contains("no readable tensor \"b\""));
}

TEST_CASE("safetensors: golden files open, with the values an independent reader finds") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(golden_folder())) {
    if (entry.path().extension() != ".safetensors") continue;
    INFO(entry.path().string());
    ++files;
    const SafetensorsFile file(entry.path());
    const auto references = read_references(entry.path());
    REQUIRE(file.entries().size() == references.size());
    for (const auto& e : file.entries()) {
      const Reference& reference = references.at(e.name);
      CHECK(e.shape == std::vector<Index>(reference.shape.begin(), reference.shape.end()));
      const auto bytes = file.bytes(e);
      const std::string raw(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      CHECK(widened(to_string(e.type), raw) == reference.values);
    }
  }
  CHECK(files > 0);
}

}  // namespace chimera::test
