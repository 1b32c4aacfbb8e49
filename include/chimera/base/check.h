#pragma once
// The one check vocabulary: ENSURE(condition, parts of a message...) and Fail(parts...).
// A message says what is wrong, where, the value, and the way out. Libraries throw; main ends the
// job.
#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace chimera {

// Exit codes of the program; Stopped: by a signal, after a checkpoint.
enum class ExitCode : int { Done = 0, Error = 1, Usage = 2, Stopped = 3 };

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::Error)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Bad usage or configuration: exit code 2.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, ExitCode::Usage) {}
};

// One part of a message: text, a character, a boolean, an integer or a floating-point number.
class Text {
 public:
  Text(const char* s) : text_(s) {}
  Text(std::string_view s) : text_(s) {}
  Text(const std::string& s) : text_(s) {}
  Text(char c) : text_(1, c) {}
  Text(bool b) : text_(b ? "true" : "false") {}
  Text(std::signed_integral auto v) : text_(std::to_string(v)) {}
  Text(std::unsigned_integral auto v) : text_(std::to_string(v)) {}
  Text(double v);  // shortest form that reads back as the same number
  Text(float v);
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

std::string concat(std::initializer_list<Text> parts);

template <class... Parts>
std::string concat(const Parts&... parts) {
  return concat({Text(parts)...});
}

template <class... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  throw Error(concat({Text(parts)...}));
}

template <class... Parts>
[[noreturn]] void FailUsage(const Parts&... parts) {
  throw UsageError(concat({Text(parts)...}));
}

}  // namespace chimera

// Throws Error with the message unless the condition holds; parts are evaluated only then.
#define ENSURE(condition, ...) ((condition) ? void(0) : ::chimera::Fail(__VA_ARGS__))
