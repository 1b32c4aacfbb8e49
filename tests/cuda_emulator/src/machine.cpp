#include "machine.h"

#include <cstdio>
#include <cstdlib>

#include "fault.h"
#include "race.h"

namespace emulator {

using chimera::concat;

namespace {

double from_environment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

Options options_of_environment() {
  Options o;
  o.seed = static_cast<std::uint64_t>(from_environment("CHIMERA_EMULATOR_SEED", 0));
  o.devices = static_cast<int>(from_environment("CHIMERA_EMULATOR_DEVICES", o.devices));
  o.capability = static_cast<int>(from_environment("CHIMERA_EMULATOR_CAPABILITY", o.capability));
  o.code = static_cast<int>(from_environment("CHIMERA_EMULATOR_CODE", o.code));
  o.driver = static_cast<int>(from_environment("CHIMERA_EMULATOR_DRIVER", o.driver));
  o.memory_bytes = static_cast<std::size_t>(
      from_environment("CHIMERA_EMULATOR_MEMORY", static_cast<double>(o.memory_bytes)));
  o.deadline_seconds = from_environment("CHIMERA_EMULATOR_DEADLINE", o.deadline_seconds);
  return o;
}

std::unique_ptr<Machine>& the_machine() {
  static auto machine = std::make_unique<Machine>(options_of_environment());
  return machine;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

Machine& machine() { return *the_machine(); }

int& current_device() {
  thread_local int device = 0;
  return device;
}

void reset(const Options& options) {
  the_machine() = nullptr;
  the_machine() = std::make_unique<Machine>(options);
  last_error = cudaSuccess;
  current_device() = 0;
}
Options options() { return machine().options; }
std::string last_report() {
  const std::lock_guard lock(machine().mutex);
  return machine().last_report;
}
int report_count() {
  const std::lock_guard lock(machine().mutex);
  return machine().reports;
}
Statistics statistics() {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  Statistics s = m.counts;
  s.live_allocations = m.memory.live_allocations();
  for (int d = 0; d < m.options.devices; ++d) s.live_bytes += m.memory.bytes_used(d);
  return s;
}

Machine::Machine(const Options& o)
    : options(o), random(o.seed), peers(static_cast<std::size_t>(std::max(o.devices, 0))) {
  if (o.seed == 1) eagerness_ = 16;
  if (o.seed > 3 && o.seed % 4 < 2) eagerness_ = 1 + static_cast<unsigned>(random.below(8));
  for (int d = 0; d < o.devices; ++d) {
    add_stream(d, /*blocking=*/true);
    streams_.back()->legacy = true;
  }
}

Machine::~Machine() {
  for (const auto& stream : streams_) race::acquire(stream.get());
  for (CUevent_st* event : events) delete event;
  race::ignore(true);  // what a kernel left that failed
  streams_.clear();
  race::ignore(false);
}

void Machine::report(const std::string& text) {
  last_report = text;
  ++reports;
  std::fprintf(stderr, "emulator: %s\n", text.c_str());
}

void Machine::fail(const std::string& text) {
  report(text);
  if (!failed) failed = text;
  changed.notify_all();
}

cudaError_t api_call(const std::function<cudaError_t(Machine&, Machine::Lock&)>& body) {
  Machine& m = machine();
  Machine::Lock lock(m.mutex);
  install_fault_handler();
  cudaError_t error = cudaSuccess;
  try {
    error = m.options.devices > 0 ? body(m, lock) : cudaErrorNoDevice;
    if (m.failed)
      error = cudaErrorLaunchFailure;
    else
      m.work_ahead(lock);  // what fails there is for the next call to say
  } catch (const Refusal& refusal) {
    m.report(refusal.text);
    error = refusal.error;
  }
  m.memory.close();
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace emulator

using namespace emulator;

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = machine().failed ? cudaErrorLaunchFailure : cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
