#include "chimera/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace chimera {
namespace {

struct Log {
  std::shared_ptr<spdlog::logger> logger = spdlog::stderr_color_mt("chimera");
  Log() { logger->set_pattern("%^%l%$: %v"); }
};

Log& instance() {
  static Log log;
  return log;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warning: return spdlog::level::warn;
    case LogLevel::Error: return spdlog::level::err;
    case LogLevel::Off: return spdlog::level::off;
  }
  Fail("unknown log level ", static_cast<int>(level));
}

}  // namespace

void set_log_level(LogLevel level) { instance().logger->set_level(level_of(level)); }

void log_message(LogLevel level, const std::string& message) {
  instance().logger->log(level_of(level), "{}", message);
}

}  // namespace chimera
