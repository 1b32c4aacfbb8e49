// Disks that refuse: full, too small, without inodes, read-only. The earlier checkpoint survives
// each, and nothing half-written stays.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>

#include "fixture.h"

namespace chimera::test {

using Catch::Contains;
using checkpoint::newest_valid;

namespace {

// Mounts a tmpfs that only the calling (child) process sees; false where that is not permitted.
bool mount_tmpfs(const Path& at, const std::string& options, unsigned long flags = 0) {
  const int user = geteuid() == 0 ? 0 : CLONE_NEWUSER;
  if (unshare(CLONE_NEWNS | user) != 0) return false;
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return mount("tmpfs", at.c_str(), "tmpfs", flags, options.c_str()) == 0;
}

constexpr int kNotPermitted = 77;

// Runs `body` on a tmpfs in a child process. Where mounting is not permitted, ctest shows a skip.
void on_tmpfs(const std::string& options, const std::function<void(const Path&)>& body) {
  int code = 0;
  {
    TemporaryFolder folder;
    code = in_child([&] {
      if (!mount_tmpfs(folder.path(), options)) _exit(kNotPermitted);
      body(folder.path());
    });
  }
  if (code == kNotPermitted) {
    std::cerr << "not run: this test mounts a tmpfs in a namespace, which is not permitted here\n";
    std::exit(kNotPermitted);
  }
  CHECK(code == 0);
}

void require(bool condition, const std::string& what) {  // Catch's own does not work in a child
  if (!condition) throw std::runtime_error("not so: " + what);
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void require_old_one_alone(const Path& directory) {
  require(names_in(directory) == std::vector<std::string>{"step-00000001"},
          "the earlier checkpoint alone is there");
  const auto newest = newest_valid(directory);
  require(newest.checkpoint && holds_numbers_of(*newest.checkpoint, 1), "and it is whole");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("disk: a write that fails at any byte leaves the earlier checkpoint and nothing else") {
  TemporaryFolder folder;
  const Path directory = folder / "checkpoints";
  write_checkpoint(directory, 1);
  // Files may grow to `limit` bytes and no further: write() then fails with EFBIG.
  for (const rlim_t limit : {0, 1, 100, 700, 1000, 1500, 2000, 2500, 3000}) {
    INFO("limit " << limit);
    CHECK(in_child([&] {
            signal(SIGXFSZ, SIG_IGN);
            const rlimit bytes{limit, limit};
            setrlimit(RLIMIT_FSIZE, &bytes);
            const std::string message = refusal([&] { write_checkpoint(directory, 2); });
            require(contains(message, "cannot write to " + directory.string()), message);
            require(contains(message, "File too large"), message);
            require_old_one_alone(directory);
          }) == 0);
  }
  CHECK(newest_valid(directory).checkpoint->manifest().step == 1);
}

TEST_CASE("disk: too little space is said before anything is written, with both numbers") {
  TemporaryFolder folder;
  checkpoint::CheckpointWriter writer(folder.path(), 2, "run");
  const Index huge = Index{1} << 58;
  const std::string message = error_of([&] { writer.begin(huge, 1); });
  CHECK_THAT(message, Contains(" bytes free; a checkpoint needs " +
                               std::to_string(huge + huge / 100 + (1 << 20))));
  CHECK_THAT(message, Contains("free some space, or set checkpoint.directory"));
  CHECK(names_in(folder.path()).empty());
  CHECK_THAT(error_of([&] { writer.begin(std::numeric_limits<Index>::max() - 5, 1); }),
             Contains("overflows"));
}

TEST_CASE("disk: full in the middle of a checkpoint") {
  on_tmpfs("size=2m", [](const Path& directory) {
    write_checkpoint(directory, 1);
    const auto fill = [&](std::string_view point) {  // somebody else takes the last bytes
      if (point != "begin") return;
      std::ofstream hog(directory.parent_path() / directory.filename() / "hog");
      while (hog.write(std::string(4096, 'x').data(), 4096).flush()) continue;
    };
    const std::string message = refusal([&] { write_checkpoint(directory, 2, 5, fill); });
    require(contains(message, "No space left on device; free some space"), message);
    std::filesystem::remove(directory / "hog");
    require_old_one_alone(directory);
    write_checkpoint(directory, 2);
  });
}

TEST_CASE("disk: without inodes, said beforehand with both numbers") {
  on_tmpfs("size=8m,nr_inodes=30", [](const Path& directory) {
    write_checkpoint(directory, 1);
    const std::string message = refusal([&] { write_checkpoint(directory, 2); });
    require(contains(message, "more files (inodes); a checkpoint needs 20"), message);
    require_old_one_alone(directory);
  });
}

TEST_CASE("disk: a read-only directory is named") {
  on_tmpfs("size=8m", [](const Path& directory) {
    write_checkpoint(directory, 1);
    require(mount("tmpfs", directory.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=8m") == 0,
            "the folder is mounted again, read-only");
    const std::string message = refusal([&] { write_checkpoint(directory, 2); });
    require(contains(message, "cannot create the directory " + directory.string()), message);
    require(contains(message, "Read-only file system"), message);
    require_old_one_alone(directory);
  });
}

TEST_CASE("disk: a directory that cannot exist is named") {
  TemporaryFolder folder;
  spit(folder / "file", "");
  CHECK_THAT(error_of([&] { write_checkpoint(folder / "file" / "checkpoints", 1); }),
             Contains("file/checkpoints: Not a directory"));
}

}  // namespace chimera::test
