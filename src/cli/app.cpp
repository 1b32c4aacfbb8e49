#include "chimera/cli/app.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>

#include "chimera/base/check.h"
#include "chimera/base/log.h"
#include "chimera/comm/communicator.h"
#include "chimera/setup/build_identity.h"
#include "commands.h"

namespace chimera::cli {
namespace {

// Errors of usage are the same on every rank of a job: the first one says it for all.
bool speaks_for_job() {
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  return true;
}

// A file opened while one of the three is closed would get its number, and the program's text.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);
}

bool output_arrived() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return true;
  log_error(
      "standard output could not be written to its end; is the disk full, or its reader gone?");
  return false;
}

// Most commands run in one process; a launcher would run the same several times.
void refuse_launcher(const CLI::App& app) {
  const CLI::App* command = app.get_subcommands().front();
  const bool measures_ranks =
      command->get_name() == "bench" && !command->get_subcommands().empty() &&
      (command->got_subcommand("p2p") || command->got_subcommand("allreduce") ||
       command->got_subcommand("schedule"));
  if (launched_processes() > 1 && command->get_name() != "train" && !measures_ranks)
    FailUsage("the launcher started ", launched_processes(),
              " processes; only `chimera train` runs on several: start this command without it");
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
    const bool on_every_rank = dynamic_cast<const UsageError*>(&e) != nullptr;
    if (!on_every_rank || speaks_for_job()) log_error(e.what());
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
  open_standard_descriptors();
  // A limit on file sizes then is an error of write, reported as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  // A GPU has more streams (computation, links) than the 8 queues that CUDA shares among them by
  // default, where a message that waits could hold up another stream. Read when CUDA starts.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  int exit_code = 0;
  CLI::App app("Chimera trains GPT-2 style transformers under bidirectional pipeline schedules.",
               "chimera");
  app.set_version_flag("--version", "chimera " + build_version());
  app.require_subcommand(1);
  app.parse_complete_callback([&app] { refuse_launcher(app); });
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
  add_plan_command(app);
  add_config_command(app);
  add_checkpoint_command(app);
  add_bench_command(app);
  add_info_command(app);
  const int code = run_command(app, argc, argv, exit_code);
  return code == 0 && !output_arrived() ? static_cast<int>(ExitCode::Error) : code;
}

}  // namespace chimera::cli
