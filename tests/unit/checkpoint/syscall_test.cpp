// The strictest form of "all or nothing": the process is killed before each single system call that
// changes the file system, in turn.
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "fixture.h"

namespace chimera::test {
namespace {

constexpr int kNoTracing = 77;

bool changes_files(std::uint64_t call) {
  static constexpr long kCalls[] = {
#ifdef SYS_rename  // newer architectures have the calls with "at" alone
      SYS_rename,    SYS_unlink,    SYS_mkdir,    SYS_rmdir,  SYS_open,
#endif
      SYS_renameat2, SYS_unlinkat,  SYS_mkdirat,  SYS_openat, SYS_write,
      SYS_pwrite64,  SYS_ftruncate, SYS_renameat, SYS_fsync,
  };
  return std::find(std::begin(kCalls), std::end(kCalls), static_cast<long>(call)) !=
         std::end(kCalls);
}

// Runs `body` in a child and kills it before its `kill_at`-th such call (from 0). True when it was
// killed, false when it came to its end first.
bool killed_before(int kill_at, const std::function<void()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNoTracing);
    raise(SIGSTOP);
    body();
    _exit(0);
  }
  int status = 0, calls = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    std::cerr << "not run: this test traces a child process, which is not permitted here\n";
    exit(kNoTracing);
  }
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  while (true) {
    REQUIRE(ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
      REQUIRE(WEXITSTATUS(status) == 0);
      return false;
    }
    REQUIRE(WIFSTOPPED(status));
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info;
    REQUIRE(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_files(info.entry.nr)) continue;
    if (calls++ == kill_at) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return true;
    }
  }
}

}  // namespace

TEST_CASE("crash: killed before any system call, a new checkpoint is there or the old one is") {
  Index before = 0, after = 0;
  for (int call = 0;; ++call) {
    INFO("killed before call " << call);
    MemoryFolder folder;
    write_checkpoint(folder.path(), 1);
    write_checkpoint(folder.path(), 2);
    // Writes step 3 and retires step 1.
    const bool killed = killed_before(call, [&] { write_checkpoint(folder.path(), 3, 2); });
    const auto newest = checkpoint::newest_valid(folder.path());
    REQUIRE(newest.checkpoint.has_value());
    CHECK(newest.passed_over.empty());
    for (const auto& listed : checkpoint::list_checkpoints(folder.path()))
      CHECK_NOTHROW(checkpoint::Checkpoint::open(listed.path));  // nothing half-retired either
    const Index step = newest.checkpoint->manifest().step;
    CHECK(holds_numbers_of(*newest.checkpoint, step));
    REQUIRE((step == 3 || (step == 2 && after == 0)));  // new once, new ever after
    ++(step == 2 ? before : after);
    if (!killed) break;
  }
  // Eight files are written, each with an open, a write and an fsync at least; then the directory's
  // fsync and the retirement of ten files.
  CHECK(before > 8 * 3);
  CHECK(after > 10);
}

TEST_CASE("crash: killed before any system call of a replacement, one of both is there") {
  for (int call = 0;; ++call) {
    INFO("killed before call " << call);
    MemoryFolder folder;
    write_checkpoint(folder.path(), 3);
    const bool killed =
        killed_before(call, [&] { write_checkpoint(folder.path(), 3, 2, {}, /*salt=*/9); });
    const auto newest = checkpoint::newest_valid(folder.path());
    REQUIRE(newest.checkpoint.has_value());
    CHECK((holds_numbers_of(*newest.checkpoint, 3, 9) ||
           (killed && holds_numbers_of(*newest.checkpoint, 3, 0))));
    if (!killed) break;
  }
}

}  // namespace chimera::test
