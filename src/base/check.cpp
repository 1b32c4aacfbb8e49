#include "chimera/base/check.h"

#include <charconv>

namespace chimera {
namespace {

template <class T>
std::string shortest(T v) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, result.ptr};
}

}  // namespace

Text::Text(double v) : text_(shortest(v)) {}
Text::Text(float v) : text_(shortest(v)) {}

std::string concat(std::initializer_list<Text> parts) {
  std::string out;
  for (const Text& part : parts) out += part.str();
  return out;
}

}  // namespace chimera
