#pragma once
namespace emulator {

// From now on a fault says what touched which memory, then takes its course (the sanitizer's
// report, or the end of the process).
void install_fault_handler();
// Gives the calling thread a stack for the handler: the one of a fiber may be what overflowed.
void prepare_thread_for_faults();

}  // namespace emulator
