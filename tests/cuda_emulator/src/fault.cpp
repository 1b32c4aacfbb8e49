#include "fault.h"

#include <csignal>
#include <cstdio>
#include <vector>

#include "machine.h"

namespace emulator {
namespace {

struct sigaction previous;

// Not safe in general; but the program ends here, and a fault inside malloc is not ours.
void on_fault(int signal, siginfo_t* info, void* context) {
  Machine& m = machine();
  const void* address = info->si_addr;
  if (m.memory.find(address) != nullptr || !m.running.empty()) {
    std::string who = "host code";
    if (!m.running.empty()) who = m.running;
    if (!m.running.empty() && kernel_runs()) who += ", " + runner().where();
    std::fprintf(stderr, "emulator: %s touches %s%s\n", who.c_str(),
                 describe_address(m.memory, address).c_str(),
                 m.running.empty() ? "; only copies and kernels may" : "");
  }
  if (previous.sa_flags & SA_SIGINFO && previous.sa_sigaction != nullptr)
    previous.sa_sigaction(signal, info, context);
  else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    previous.sa_handler(signal);
  else
    sigaction(signal, &previous, nullptr);  // and the instruction faults again
}

}  // namespace

void install_fault_handler() {
  struct sigaction current = {};
  sigaction(SIGSEGV, nullptr, &current);
  if (current.sa_flags & SA_SIGINFO && current.sa_sigaction == on_fault) return;
  previous = current;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

void prepare_thread_for_faults() {
  thread_local std::vector<char> stack;
  stack_t current = {};
  if (!stack.empty() || (sigaltstack(nullptr, &current) == 0 && !(current.ss_flags & SS_DISABLE)))
    return;
  stack.resize(std::size_t{64} << 10);
  stack_t mine = {};
  mine.ss_sp = stack.data();
  mine.ss_size = stack.size();
  sigaltstack(&mine, nullptr);
}

}  // namespace emulator
