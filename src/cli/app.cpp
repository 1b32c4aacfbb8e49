#include "chimera/cli/app.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <new>

#include "chimera/base/check.h"
#include "chimera/base/log.h"
#include "chimera/cli/bench_command.h"
#include "chimera/cli/checkpoint_command.h"
#include "chimera/cli/data_command.h"
#include "chimera/cli/schedule_command.h"
#include "chimera/cli/tokenizer_command.h"
#include "chimera/cli/train_command.h"
#include "chimera/train/build_identity.h"

namespace chimera::cli {
namespace {

// Errors of usage are the same on every rank of a job: the first one says it for all.
bool speaks_for_job() {
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  return true;
}

int run_command(CLI::App& app, int argc, char** argv, int& exit_code) {
  try {
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    if (speaks_for_job()) {
      const std::vector<std::string> extra = app.remaining(/*recurse=*/true);
      std::cerr << "error: " << (extra.empty() ? e.what() : "not understood: " + extra.front())
                << "\n";
      std::cerr << "run `chimera --help`, or --help after a command, for what is accepted\n";
    }
    return static_cast<int>(ExitCode::Usage);
  } catch (const Error& e) {
    if (e.code() != ExitCode::Usage || speaks_for_job()) log_error(e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    log_error("out of memory; use a smaller model, micro-batch or depth per node");
    return static_cast<int>(ExitCode::Error);
  } catch (const std::exception& e) {
    log_error(e.what());
    return static_cast<int>(ExitCode::Error);
  }
}

}  // namespace

int run(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("Chimera trains GPT-2 style transformers under bidirectional pipeline schedules.",
               "chimera");
  app.set_version_flag("--version", "chimera " + train::build_version());
  app.require_subcommand(1);
  app.footer(
      "Example:\n  chimera train configs/quickstart.json\nEvery command explains itself: chimera "
      "train --help\n"
      "Exit codes: 0 done, 1 error, 2 bad usage or configuration, 3 stopped by a signal after a "
      "checkpoint");
  add_train_command(app, exit_code);
  add_eval_command(app);
  add_generate_command(app);
  add_tokenizer_command(app);
  add_data_command(app);
  add_schedule_command(app);
  add_config_command(app);
  add_checkpoint_command(app);
  add_bench_command(app);
  add_info_command(app);
  return run_command(app, argc, argv, exit_code);
}

}  // namespace chimera::cli
