#pragma once
// What the drawings share.
#include <string>

#include "chimera/base/format.h"
#include "chimera/schedule/render.h"

namespace chimera::schedule {

std::string heading(const Schedule& schedule);  // "chimera: D = 4, N = 4, f = 1"
// "makespan 10, idle 2 per worker: bubble ratio 20.0 %"
std::string bubble_text(const Timetable& table);
std::string cell_label(const Instr& in);  // "F3", "B3"

std::string seconds_text(double value);  // six digits at most, in s, ms or us: "12.5 ms"

// A box of an SVG with its text in the middle where it fits, and text for the mouse.
struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
  std::string fill, label = {}, hover = {};
  bool dark = false, hatched = false;
};
class Svg {
 public:
  Svg(double width, double height, double label_size = 11);
  void box(const SvgBox& box);
  // style: "n" plain, "h" heading, "t" small and grey.
  void text(double x, double y, const char* style, const std::string& content);
  void frame(double x, double y, double width, double height);  // dashed, empty
  std::string finish() &&;

 private:
  double label_size_;
  std::string out_;
};
// "#rrggbb" (SVG 1.1 has no hsl()): hue in degrees, saturation and lightness in [0, 1].
std::string rgb(double hue, double saturation, double lightness);

}  // namespace chimera::schedule
