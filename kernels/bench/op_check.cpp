#include "op_check.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/rng.h"
#include "chimera/base/threads.h"
#include "chimera/tensor/half.h"

namespace chimera::bench {
namespace {

// Numbers repeat after a period that fits no row: making more of them would take longer than all
// that is measured.
constexpr std::size_t kPeriod = 1'000'003;

constexpr Index kNear = 256;

// `count` numbers of t from `first` on, as fp32.
void widen_part(float* out, const Tensor& t, Index first, Index count) {
  if (t.type() == DType::F64) {
    std::copy_n(t.as<double>() + first, count, out);
    return;
  }
  std::byte* const from = static_cast<std::byte*>(t.raw()) + first * size_of(t.type());
  widen(out, Tensor(from, t.type(), {count}));
}

// Of a piece: the sum of squares of the differences and of the reference.
struct Piece {
  double difference = 0, size = 0;
};
Piece piece_of(const Tensor& ours, const Tensor& reference, Index first, Index count) {
  float x[kNear], y[kNear];
  widen_part(x, ours, first, count);
  widen_part(y, reference, first, count);
  Piece piece;
  for (Index i = 0; i < count; ++i) {
    const double r = static_cast<double>(y[i]), d = static_cast<double>(x[i]) - r;
    piece.difference += d * d;
    piece.size += r * r;
  }
  return piece;
}

// Differences are compared with the numbers around them and with the tensor's mean square, so a
// single wrong row of thousands is found.
void compare(const Tensor& ours, const Tensor& reference, double tolerance,
             const std::string& what) {
  const Index n = ours.size();
  const auto count_from = [n](Index first) { return std::min(kNear, n - first); };
  std::vector<Piece> pieces(static_cast<std::size_t>(ceil_div(n, kNear)));
  parallel_for(std::ssize(pieces), 1024, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      pieces[static_cast<std::size_t>(i)] =
          piece_of(ours, reference, i * kNear, count_from(i * kNear));
  });
  double all = 0;
  for (const Piece& piece : pieces) all += piece.size;
  const double mean_square = all / static_cast<double>(n);
  for (Index i = 0; i < std::ssize(pieces); ++i) {
    const Index first = i * kNear, count = count_from(first);
    const auto [difference, own] = pieces[static_cast<std::size_t>(i)];
    const double size = own + mean_square * static_cast<double>(count);
    ENSURE(difference <= tolerance * tolerance * size, what, ": elements ", first, " to ",
           first + count - 1, " differ from the CPU's by ", std::sqrt(difference / size),
           " (relative, allowed is ", tolerance, "); its time means nothing");
  }
}

}  // namespace

void fill(const Tensor& t, const Operand& o, std::size_t number) {
  const auto n = static_cast<std::size_t>(t.size());
  if (t.type() == DType::I32) {
    for (Index i = 0; i < t.size(); ++i)
      t.i32()[i] = static_cast<std::int32_t>(permute_index(i, t.size(), 3, 0) % o.below);
    return;
  }
  std::byte* const bytes = static_cast<std::byte*>(t.raw());
  if (o.deviation == 0) {
    std::fill_n(bytes, t.bytes(), std::byte{0});
    return;
  }
  std::vector<float> numbers(std::min(n, kPeriod));
  fill_normal(numbers.data(), static_cast<Index>(numbers.size()), 0, 0, o.deviation, 1, number);
  const auto size = static_cast<std::size_t>(size_of(t.type()));
  round_into(Tensor(bytes, t.type(), {static_cast<Index>(numbers.size())}), numbers.data());
  for (std::size_t at = numbers.size(); at < n; at += numbers.size())
    std::copy_n(bytes, std::min(numbers.size(), n - at) * size, bytes + at * size);
}

// A sum of thousands of fp32 numbers in another order, or two roundings to 16 bits and the
// products of what was rounded.
double tolerance_of(DType type) { return type == DType::F32 ? 5e-5 : 4 * rounding_unit(type); }

void check_case(const OpCase& c, Ops& ops, Ops& reference, Device& device,
                const Operands& on_device, double tolerance) {
  const std::unique_ptr<Device> host = make_host_device();
  const Operands on_host(*host, c);
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Tensor& h = on_host.tensors()[i];
    fill(h, c.operands[i], i + 1);
    device.copy_in(on_device.tensors()[i].raw(), h.raw(), h.bytes());
  }
  std::vector<double> sums;
  for (const bool ours : {true, false}) {
    Ops& o = ours ? ops : reference;
    const auto tensors = (ours ? on_device : on_host).tensors();
    if (c.prepare) c.prepare(o, tensors);
    c.run(o, tensors);
    if (ours && c.sums) sums = *c.sums;
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    ENSURE(std::abs(sums[i] - (*c.sums)[i]) <= 1e-12 * (*c.sums)[i], c.name, ": sum ", i, " is ",
           sums[i], ", the CPU's ", (*c.sums)[i]);
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Tensor& t = on_device.tensors()[i];
    if (!c.operands[i].output) continue;
    const Buffer copy(*host, t.bytes());
    device.copy_out(copy.data(), t.raw(), t.bytes());
    compare(t.at(copy.data()), on_host.tensors()[i], tolerance,
            concat(c.name, " (", c.detail, "), operand ", i));
  }
}

}  // namespace chimera::bench
