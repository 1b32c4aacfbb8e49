// Conversions between fp32 and the 16-bit types, against arithmetic in double.
#include "chimera/tensor/half.h"

#include <cmath>
#include <limits>
#include <vector>

#include "chimera/base/rng.h"
#include "chimera/tensor/layout.h"
#include "support/support.h"

using namespace chimera;

namespace {

struct Format {
  DType type;
  float (*widen)(std::uint16_t);
  std::uint16_t (*round)(float);
  int fraction, least_exponent;  // bits of the fraction; exponent of the smallest normal number
  double largest;
};
const Format kFormats[] = {{DType::BF16, from_bf16, to_bf16, 7, -126, std::ldexp(2 - 0x1p-7, 127)},
                           {DType::F16, from_f16, to_f16, 10, -14, 65504}};

// To nearest, ties to even (nearbyint), of a number whose last place is known exactly.
double rounded(const Format& f, double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), f.least_exponent);
  const double place = std::ldexp(1.0, exponent - f.fraction);
  const double y = std::nearbyint(x / place) * place;
  return std::abs(y) > f.largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : y;
}

}  // namespace

TEST_CASE("every 16-bit number widens to its value and rounds back to itself") {
  for (const Format& f : kFormats)
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const float x = f.widen(bits);
      const std::uint32_t fraction = i & ((1u << f.fraction) - 1);
      const int exponent = static_cast<int>(i >> f.fraction & ((1u << (15 - f.fraction)) - 1));
      if (exponent == (1 << (15 - f.fraction)) - 1) {
        if (fraction != 0) {
          CHECK((std::isnan(x) && std::isnan(f.widen(f.round(x)))));
          continue;
        }
        CHECK(std::isinf(x));
      } else {
        const double unit =
            std::ldexp(1.0, std::max(exponent, 1) - 1 + f.least_exponent - f.fraction);
        const double value = (fraction + (exponent > 0 ? std::ldexp(1.0, f.fraction) : 0)) * unit;
        if (static_cast<double>(x) != (i & 0x8000 ? -value : value)) FAIL(i << " is read as " << x);
      }
      if (f.round(x) != bits) FAIL(i << " becomes " << f.round(x));
    }
}

TEST_CASE("fp32 is rounded to the nearest 16-bit number, ties to even") {
  for (const Format& f : kFormats) {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < 200000; ++i) {  // any bits, so any exponent
      const float x = std::bit_cast<float>(philox4x32({i, 0, 0, 0}, {1, 2})[0]);
      if (!std::isnan(x)) values.push_back(x);
    }
    for (std::uint32_t i = 0; i < 0x7fff; ++i) {  // halfway between neighbours, and just beside
      const float a = f.widen(static_cast<std::uint16_t>(i)),
                  b = f.widen(static_cast<std::uint16_t>(i + 1));
      if (!std::isfinite(b)) continue;
      const float tie = (a + b) / 2;
      for (const float x : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, b), -tie})
        if (std::isfinite(x)) values.push_back(x);
    }
    for (const float x : values)
      if (static_cast<double>(f.widen(f.round(x))) != rounded(f, static_cast<double>(x)))
        FAIL(to_string(f.type) << ": " << x << " becomes " << f.widen(f.round(x)));
    // The type's rounding unit is met by a tie and exceeded by none.
    const double u = rounding_unit(f.type);
    CHECK(std::abs(rounded(f, 1 + u) - (1 + u)) == u);
  }
}

TEST_CASE("a layout of F32 kept in 16 bits: half the bytes, half the offsets, the same shapes") {
  Layout layout;
  const Region a = layout.add("a", DType::F32, {3, 5}), b = layout.add("b", DType::F32, {7}),
               ids = layout.add("ids", DType::I32, {4});
  std::vector<std::byte> memory(static_cast<std::size_t>(layout.bytes()));
  const Flat wide{memory.data()}, narrow{memory.data(), DType::BF16};
  CHECK(wide.at(b).type() == DType::F32);
  CHECK(narrow.at(b).type() == DType::BF16);
  CHECK(narrow.at(a).shape_text() == "(3, 5)");
  CHECK(static_cast<std::byte*>(narrow.at(b).raw()) - memory.data() == b.offset / 2);
  CHECK(b.offset / 2 % 64 == 0);  // packed loads find tensors aligned in either type
  CHECK_THROWS_AS(narrow.at(ids), Error);
  CHECK(wide.at(ids).type() == DType::I32);
}

TEST_CASE("names of the types of computation") {
  CHECK(parse_compute_type("fp32") == DType::F32);
  CHECK(parse_compute_type("bf16") == DType::BF16);
  CHECK(parse_compute_type("fp16") == DType::F16);
  CHECK_THROWS_AS(parse_compute_type("fp8"), UsageError);
}
