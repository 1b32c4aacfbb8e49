#pragma once
#include "chimera/base/types.h"

namespace chimera {

// Where samples come from, by global number (step * batch + position in the batch): the same on any
// layout.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual Index size() const { return 0; }  // samples there are; 0: without end
  // Fills T inputs and T targets of global sample `number`.
  virtual void read(Index number, std::int32_t* inputs, std::int32_t* targets) = 0;
};

}  // namespace chimera
