#include "chimera/base/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "chimera/base/check.h"

namespace chimera {

std::string format(const char* pattern, ...) {
  std::va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  ENSURE(length >= 0, "the pattern ", pattern, " cannot be written");
  return text;
}

std::string human_bytes(Index bytes, int decimals) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return format("%.*f %s", unit == 0 ? 0 : decimals, value, kUnits[unit]);
}

std::string human_count(double value) {
  if (value >= 1e9) return format("%.2fG", value / 1e9);
  if (value >= 1e6) return format("%.2fM", value / 1e6);
  if (value >= 1e3) return format("%.1fk", value / 1e3);
  return format("%.0f", value);
}

std::string human_seconds(double seconds) {
  const auto s = static_cast<long>(std::lround(seconds));
  if (s < 60) return format("%lds", s);
  if (s < 3600) return format("%ldm%02lds", s / 60, s % 60);
  return format("%ldh%02ldm", s / 3600, s % 3600 / 60);
}

std::string percent(double share, int decimals) {
  const bool zero = std::abs(100 * share) < 0.5 * std::pow(10.0, -decimals);  // never "-0.0 %"
  return format("%.*f %%", decimals, zero ? 0.0 : 100 * share);
}

}  // namespace chimera
