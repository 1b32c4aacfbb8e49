// All or nothing: whatever ends the process and whenever, and whatever is damaged later, the newest
// checkpoint that verifies is complete. (A kill leaves the page cache intact, so this does not test
// what a power failure does; the order of fsync and rename is for that.)
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "fixture.h"

namespace chimera::test {

using Catch::Contains;
using checkpoint::Checkpoint;
using checkpoint::newest_valid;

namespace {

// The points that writing `step` passes, in order.
std::vector<std::string> points_of(const Path& directory, Index step, Index keep) {
  std::vector<std::string> points;
  write_checkpoint(directory, step, keep, [&](std::string_view p) { points.emplace_back(p); });
  return points;
}

bool any_temporary(const Path& directory) {
  const auto names = names_in(directory);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& n) { return n.find(".tmp.") != n.npos; });
}

checkpoint::CheckpointWriter::Hook die_at(std::size_t index) {
  return [index, count = std::size_t{0}](std::string_view) mutable {
    if (count++ == index) kill(getpid(), SIGKILL);
  };
}

void flip_bit(const Path& path, std::size_t byte, int bit) {
  std::string content = slurp(path);
  content[byte] = static_cast<char>(content[byte] ^ (1 << bit));
  spit(path, content);
}

std::vector<Path> files_below(const Path& directory) {
  std::vector<Path> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// The older checkpoint answers, and the newer one is passed over with the damaged file's name.
void check_fallback(const Path& directory, const Path& damaged) {
  INFO("damaged: " << damaged);
  const auto newest = newest_valid(directory);
  REQUIRE(newest.checkpoint.has_value());
  CHECK(newest.checkpoint->manifest().step == 1);
  REQUIRE(newest.passed_over.size() == 1);
  CHECK_THAT(newest.passed_over[0], Contains(damaged.filename().string()));
  CHECK_THROWS_AS(Checkpoint::open(directory / "step-00000002").verify(), Error);
}

}  // namespace

TEST_CASE("crash: killed at any point, the newest whole checkpoint is the old or the new one") {
  MemoryFolder rehearsal;
  for (const Index step : {1, 2}) write_checkpoint(rehearsal.path(), step, 2);
  const std::vector<std::string> points = points_of(rehearsal.path(), 3, 2);
  const auto renamed = std::find(points.begin(), points.end(), "rename") - points.begin();
  for (const char* point : {"begin", "shard", "shard-done", "files", "manifest", "rename",
                            "committed", "retire", "retired"})
    CHECK(std::find(points.begin(), points.end(), point) != points.end());

  for (std::size_t i = 0; i < points.size(); ++i) {
    INFO("killed at point " << i << ", " << points[i]);
    MemoryFolder folder;
    for (const Index step : {1, 2}) write_checkpoint(folder.path(), step, 2);
    REQUIRE(in_child([&] { write_checkpoint(folder.path(), 3, 2, die_at(i)); }) == 128 + SIGKILL);

    const auto newest = newest_valid(folder.path());
    REQUIRE(newest.checkpoint.has_value());
    CHECK(newest.passed_over.empty());
    const Index step = static_cast<long>(i) < renamed ? 2 : 3;
    CHECK(newest.checkpoint->manifest().step == step);
    CHECK(holds_numbers_of(*newest.checkpoint, step));

    write_checkpoint(folder.path(), 4, 2);  // the next start cleans up
    CHECK_FALSE(any_temporary(folder.path()));
    CHECK(newest_valid(folder.path()).checkpoint->manifest().step == 4);
  }
}

TEST_CASE("crash: killed in the middle of any file, the old checkpoint stays") {
  // SIGXFSZ ends the process at the byte that the limit names, in whichever file reaches it first:
  // shards are about 500 to 1,500 bytes long, the manifest is the longest file.
  MemoryFolder folder;
  write_checkpoint(folder.path(), 1);
  const Path written = write_checkpoint(folder.path(), 2);
  const rlim_t manifest = std::filesystem::file_size(written / "manifest.json");
  std::filesystem::remove_all(written);
  for (const rlim_t limit :
       {rlim_t{0}, rlim_t{4}, rlim_t{100}, rlim_t{700}, rlim_t{1000}, manifest / 2, manifest - 1}) {
    INFO("limit " << limit);
    REQUIRE(in_child([&] {
              const rlimit bytes{limit, limit}, no_core{0, 0};
              setrlimit(RLIMIT_CORE, &no_core);
              setrlimit(RLIMIT_FSIZE, &bytes);
              write_checkpoint(folder.path(), 2);
            }) == 128 + SIGXFSZ);
    const auto newest = newest_valid(folder.path());
    REQUIRE(newest.checkpoint.has_value());
    CHECK(newest.passed_over.empty());
    CHECK(newest.checkpoint->manifest().step == 1);
  }
  write_checkpoint(folder.path(), 2);
  CHECK_FALSE(any_temporary(folder.path()));
}

TEST_CASE("crash: a flipped bit in any file is found, named and passed over") {
  MemoryFolder folder;
  write_checkpoint(folder.path(), 1);
  const Path newer = write_checkpoint(folder.path(), 2);
  const std::vector<Path> files = files_below(newer);
  REQUIRE(files.size() ==
          9);  // 4 safetensors, 2 tables of Hugging Face, 2 of the tokenizer, manifest
  for (const Path& path : files) {
    const std::size_t size = std::filesystem::file_size(path);
    const std::size_t stride = std::max<std::size_t>(1, size / 24);
    for (std::size_t byte = 0; byte < size; byte += stride) {
      flip_bit(path, byte, static_cast<int>(byte % 8));
      check_fallback(folder.path(), path);
      flip_bit(path, byte, static_cast<int>(byte % 8));
    }
  }
  CHECK(newest_valid(folder.path()).checkpoint->manifest().step == 2);
}

TEST_CASE("crash: damage names the tensor it hit, at verification and at reading") {
  MemoryFolder folder;
  const Path path = write_checkpoint(folder.path(), 2);
  const Checkpoint before = Checkpoint::open(path);
  const auto& tensor = *before.manifest().find("transformer.wte.weight");
  flip_bit(path / tensor.file, static_cast<std::size_t>(tensor.offset + tensor.bytes - 1), 5);
  const Checkpoint c = Checkpoint::open(path);  // sizes alone are right
  CHECK_THAT(error_of([&] { c.verify(); }),
             Contains("model-00001-of-00002.safetensors is damaged, in tensor "
                      "\"transformer.wte.weight\""));
  std::vector<float> room(40);
  CHECK_THAT(error_of([&] {
               c.read(tensor.name, Tensor(room.data(), DType::F32, {10, 4}));
             }),
             Contains("is damaged, in tensor \"transformer.wte.weight\""));
  flip_bit(path / "optimizer-00002-of-00002.safetensors", 20, 0);
  flip_bit(path / tensor.file, static_cast<std::size_t>(tensor.offset + tensor.bytes - 1), 5);
  CHECK_THAT(error_of([&] { c.verify(); }),
             Contains("optimizer-00002-of-00002.safetensors is damaged, in its header"));
}

TEST_CASE("crash: any file cut to 0, 1, half or n - 1 bytes, or gone, is found and named") {
  MemoryFolder folder;
  write_checkpoint(folder.path(), 1);
  const Path newer = write_checkpoint(folder.path(), 2);
  for (const Path& path : files_below(newer)) {
    const std::string whole = slurp(path);
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
      spit(path, whole.substr(0, n));
      check_fallback(folder.path(), path);
    }
    spit(path, whole + "x");
    check_fallback(folder.path(), path);
    std::filesystem::remove(path);
    check_fallback(folder.path(), path);
    spit(path, whole);
  }
  CHECK(newest_valid(folder.path()).checkpoint->manifest().step == 2);
}

TEST_CASE("crash: with every checkpoint damaged, each is reported and none is taken") {
  MemoryFolder folder;
  for (const Index step : {1, 2, 3})
    flip_bit(write_checkpoint(folder.path(), step) / "manifest.json", 30, 1);
  const auto newest = newest_valid(folder.path());
  CHECK_FALSE(newest.checkpoint.has_value());
  REQUIRE(newest.passed_over.size() == 3);
  CHECK_THAT(newest.passed_over[0], Contains("step-00000003"));
  CHECK_THAT(newest.passed_over[2], Contains("step-00000001"));
}

}  // namespace chimera::test
