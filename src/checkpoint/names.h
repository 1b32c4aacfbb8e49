#pragma once
// Names in a directory of checkpoints.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/file.h"

namespace chimera::checkpoint {

// The step of "step-00001000" (eight digits or more, as step_name writes them); nothing for others.
std::optional<Index> parse_step_name(std::string_view name);
// "step-00001000.tmp.ID": not a checkpoint (yet, or any more).
std::string temporary_name(Index step, const std::string& id);
bool is_temporary_name(std::string_view name);
// Letters, digits and '-', at least one.
bool is_run_id(std::string_view id);

// The directories (no symbolic links) in a directory; none where it does not exist.
std::vector<Path> subdirectories(const Path& directory);

}  // namespace chimera::checkpoint
