#pragma once
// What a run trains on, and what identifies it.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chimera/checkpoint/writer.h"
#include "chimera/runtime/sample_source.h"

namespace chimera {
class Worker;
}

namespace chimera::train {

// Of a run's data and of how it computes; goes into every checkpoint.
struct RunIdentity {
  std::string data_fingerprint, tokenizer_fingerprint;
  Index end_of_text = -1;
  std::vector<checkpoint::ExtraFile> tokenizer_files;
  std::map<std::string, std::string> environment;  // "layout", "threads", "isa", "matmul", "build"
};

struct RunInputs {
  // Called once per process; validation may be empty or give nullptr: there is none.
  std::function<std::unique_ptr<SampleSource>()> training, validation;
  RunIdentity identity;
  std::string data_summary;  // one line for people, or empty
  // Tests look at the state here; may be empty.
  std::function<void(Worker&, Index step)> after_step;
};

}  // namespace chimera::train
