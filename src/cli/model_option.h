#pragma once
// What --model takes.
#include <string>

#include "chimera/setup/config.h"

namespace chimera::cli {

// A preset ("gpt2-124m") or a JSON file whose sections `model` and `data.sequence_length` count;
// its other sections may be there and are not looked at. The result has the model and the sequence
// length (`sequence`, where above 0) alone, checked as `chimera train` checks them.
Config model_option(const std::string& name, Index sequence);

}  // namespace chimera::cli
