#pragma once
// Tables of bad input.
#include <string>
#include <vector>

#include "project.h"

namespace chimera::test {

struct BadInput {
  std::string name;
  std::string prepare;    // shell, in the case's own folder, a sibling of the project's
  std::string arguments;  // of chimera
  int code;
  std::vector<std::string> pieces;  // of the message on standard error
};

// The project with its run of 12 steps in "run", which no case may change.
class BadInputs : public Project {
 public:
  BadInputs();
  // Each case ends with its code and message, without a crash or a trace, and loses nothing.
  void check(const std::vector<BadInput>& cases) const;

 private:
  std::map<std::string, std::string> kept_;
};

}  // namespace chimera::test
