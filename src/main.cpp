#include "chimera/base/threads.h"
#include "chimera/cli/app.h"

int main(int argc, char** argv) {
  chimera::ensure_passive_waiting(argv);
  return chimera::cli::run(argc, argv);
}
