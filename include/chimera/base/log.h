#pragma once
// Library code never prints: it logs, to standard error. Standard output belongs to the commands.
#include <string>

#include "chimera/base/check.h"

namespace chimera {

enum class LogLevel { Debug, Info, Warning, Error, Off };

void set_log_level(LogLevel level);
void log_message(LogLevel level, const std::string& message);

template <class... Parts>
void log_info(const Parts&... parts) {
  log_message(LogLevel::Info, concat({Text(parts)...}));
}
template <class... Parts>
void log_warning(const Parts&... parts) {
  log_message(LogLevel::Warning, concat({Text(parts)...}));
}
template <class... Parts>
void log_error(const Parts&... parts) {
  log_message(LogLevel::Error, concat({Text(parts)...}));
}

}  // namespace chimera
