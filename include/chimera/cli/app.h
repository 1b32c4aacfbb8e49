#pragma once
// The command line: parses arguments, runs a command, turns exceptions into messages and exit
// codes.
namespace chimera::cli {

// Returns the exit code: 0 done, 1 error, 2 bad usage or configuration, 3
// stopped.
int run(int argc, char** argv);

}  // namespace chimera::cli
