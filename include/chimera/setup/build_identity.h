#pragma once
// What was built and what it runs on: for `chimera info`, the log directory and every checkpoint.
#include <map>
#include <string>

namespace chimera {

std::string build_version();  // "0.1.0"
// "build", "isa", "matmul", "mpi": what may change the last digits of a result.
std::map<std::string, std::string> build_environment();
// A table for people, with what is missing and how to get it.
std::string build_report();

}  // namespace chimera
