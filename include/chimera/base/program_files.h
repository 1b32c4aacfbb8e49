#pragma once
// Data files that come with the program: cluster descriptions, the paper's numbers.
#include "chimera/base/file.h"

namespace chimera {

// The path of `name` ("clusters/dgx-h100.json") among the program's own data, wherever the program
// is started: share/chimera beside it (in a build folder) or beside its bin folder (installed). The
// file need not exist: where neither does, the path in an installed program, for messages.
Path program_file(const Path& name);

}  // namespace chimera
