#include "render_shared.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace chimera::schedule {
namespace {

// Tenths of a pixel are enough, and a tenth of the bytes.
std::string px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string out = text;
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string rect(const SvgBox& box, const std::string& fill) {
  return "<rect x=\"" + px(box.x) + "\" y=\"" + px(box.y) + "\" width=\"" + px(box.width) +
         "\" height=\"" + px(box.height) + "\" fill=\"" + fill + "\"/>";
}

}  // namespace

std::string seconds_text(double value) {
  const double size = std::abs(value);
  const auto [scale, unit] = size == 0 || size >= 1 ? std::pair(1.0, "s")
                             : size >= 1e-3         ? std::pair(1e3, "ms")
                                                    : std::pair(1e6, "us");
  char text[48];
  std::snprintf(text, sizeof text, "%.6g %s", value * scale, unit);
  return text;
}

std::string rgb(double hue, double saturation, double lightness) {
  const double chroma = saturation * std::min(lightness, 1 - lightness);
  std::string out = "#";
  for (const int n : {0, 8, 4}) {
    const double k = std::fmod(n + hue / 30, 12);
    const double value = lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>(std::lround(255 * value)) & 255u);
    out += digits;
  }
  return out;
}

Svg::Svg(double width, double height, double label_size) : label_size_(label_size) {
  const std::string w = px(width), h = px(height);
  out_ =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h +
      "\" viewBox=\"0 0 " + w + " " + h + "\">\n<style>text{font-family:sans-serif;font-size:" +
      "11px}.f,.b{text-anchor:middle;font-size:" + px(label_size) +
      "px}.b{fill:#fff}.h{font-size:15px;font-weight:bold}.t{fill:#777;font-size:9px}</style>\n" +
      "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" " +
      "patternTransform=\"rotate(45)\"><rect width=\"1.5\" height=\"5\" fill=\"#0007\"/>" +
      "</pattern></defs>\n<rect width=\"" + w + "\" height=\"" + h + "\" fill=\"#fff\"/>\n";
}

void Svg::box(const SvgBox& box) {
  if (!box.hover.empty()) out_ += "<g><title>" + escaped(box.hover) + "</title>";
  out_ += rect(box, box.fill);
  if (box.hatched) out_ += rect(box, "url(#hatch)");
  const double needed = 0.58 * label_size_ * static_cast<double>(box.label.size());
  if (!box.label.empty() && needed <= box.width)
    out_ += "<text x=\"" + px(box.x + box.width / 2) + "\" y=\"" +
            px(box.y + box.height / 2 + 0.36 * label_size_) + "\" class=\"" +
            (box.dark ? "b" : "f") + "\">" + escaped(box.label) + "</text>";
  out_ += box.hover.empty() ? "\n" : "</g>\n";
}

void Svg::text(double x, double y, const char* style, const std::string& content) {
  out_ += "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\" class=\"" + style + "\">" +
          escaped(content) + "</text>\n";
}

void Svg::frame(double x, double y, double width, double height) {
  out_ += "<rect x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" + px(width) + "\" height=\"" +
          px(height) + "\" fill=\"none\" stroke=\"#c00\" stroke-dasharray=\"4 3\"/>\n";
}

std::string Svg::finish() && { return std::move(out_) + "</svg>\n"; }

}  // namespace chimera::schedule
