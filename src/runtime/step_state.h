#pragma once
// What belongs to one step while it is in flight.
#include "chimera/runtime/worker.h"

namespace chimera {

class Worker::StepSync final : public Background::Job {
 public:
  explicit StepSync(Communicator& comm) : comm_(&comm) {}
  void run(std::string_view what) override;
  // By model order each tensor's sum of squares (from the one worker that counts it), by position
  // in the batch each sample's loss (from the worker that computed it), then the requests: one
  // non-zero contribution per entry, so the sums are exact and alike on every worker.
  std::vector<double> values;

 private:
  Communicator* comm_;
};

struct Worker::StepState {
  Index step = -1;
  Index place = 0;  // of its losses
  StepResult result;
  double clip = 1;
  StepSync sync;
  std::string what;
  Background::Ticket ticket = 0;
};

struct Worker::Execution {
  nn::Mode mode;
  SampleSource& samples;
  int channels;            // added to the pipe
  Index sample_count = 0;  // evaluation: sample numbers wrap here
  float loss_scale = 0;
  bool activations_kept = true;  // from forward to backward
  StepDone done;
  Index first = 0, last = 1, iteration = 0;     // steps of the run; of the program
  std::optional<Background::Times> background;  // of the last collective waited for

  Index step(const schedule::Instr& in) const { return iteration + in.step; }
};

// A GPU's times of traced instructions, read when it is done.
struct Worker::DeviceClock {
  struct Span {
    std::size_t event;  // of the trace
    std::unique_ptr<Event> begin, end;
  };
  double zero_seconds = 0;  // of the steady clock, at `zero`
  std::unique_ptr<Event> zero;
  std::vector<Span> spans;
};

}  // namespace chimera
