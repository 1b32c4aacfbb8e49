#include "chimera/base/log.h"
#include "chimera/base/threads.h"
#include "support/session.h"

int main(int argc, char** argv) {
  chimera::ensure_passive_waiting(argv);
  chimera::set_log_level(chimera::LogLevel::Warning);
  // 77 failures would read as "skipped".
  return chimera::test::run_session(argc, argv) == 0 ? 0 : 1;
}
