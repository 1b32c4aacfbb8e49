#include <cstring>

#include "mma.h"
#include "race.h"

namespace emulator {
namespace {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kSide = 16, kArea = kSide * kSide;

int size_of(MatrixElement type) { return type == MatrixElement::Fp32 ? 4 : 2; }

// One lane's part in a load or a store.
struct TransferLane {
  void* x;
  int elements, bytes;
  MatrixAddress matrix;
  bool store;
  const Place* place;
};

char* element_address(const TransferLane& lane, int position) {
  const int row = position / kSide, column = position % kSide;
  const std::size_t at = lane.matrix.columns ? std::size_t{lane.matrix.leading} * column + row
                                             : std::size_t{lane.matrix.leading} * row + column;
  return static_cast<char*>(const_cast<void*>(lane.matrix.memory)) +
         at * static_cast<std::size_t>(lane.bytes);
}

void check(const TransferLane& lane) {
  if (reinterpret_cast<std::uintptr_t>(lane.matrix.memory) % 32 != 0)
    kernel_error("wmma load or store at an address that is not a multiple of 32 bytes",
                 *lane.place);
  if (lane.matrix.leading * static_cast<unsigned>(lane.bytes) % 16 != 0)
    kernel_error("wmma load or store whose leading dimension is no multiple of 16 bytes",
                 *lane.place);
}

void transfer(void* const* lanes, unsigned members) {
  const auto& first = *static_cast<const TransferLane*>(lanes[std::countr_zero(members)]);
  if (members != kFullWarp) kernel_error("wmma by a warp that is not whole", *first.place);
  check(first);
  for (int l = 0; l < 32; ++l) {
    const auto& lane = *static_cast<const TransferLane*>(lanes[l]);
    if (lane.matrix.memory != first.matrix.memory || lane.matrix.leading != first.matrix.leading ||
        lane.matrix.columns != first.matrix.columns || lane.store != first.store)
      kernel_error("wmma whose lanes name different matrices", *lane.place);
    const auto bytes = static_cast<std::size_t>(lane.bytes);
    for (int i = 0; i < lane.elements; ++i) {
      char* const memory = element_address(lane, wmma_position(l, i % 8));
      auto* const element = static_cast<char*>(lane.x) + i * bytes;
      // Not memcpy of a variable size: a store of the type itself is what the sanitizer sees best.
      if (lane.bytes == 2)
        *reinterpret_cast<std::uint16_t*>(lane.store ? memory : element) =
            *reinterpret_cast<const std::uint16_t*>(lane.store ? element : memory);
      else
        *reinterpret_cast<float*>(lane.store ? memory : element) =
            *reinterpret_cast<const float*>(lane.store ? element : memory);
    }
  }
}

struct MultiplyLane {
  float* d;
  const void *a, *b;
  const float* c;
  MatrixElement type;
  const Place* place;
};

float element(const void* x, int i, MatrixElement type) {
  const auto bits = static_cast<const std::uint16_t*>(x)[i];
  return type == MatrixElement::Bf16 ? float_from_bf16(bits) : float_from_fp16(bits);
}

// Products are exact in fp32; sums are rounded once per term, in ascending order of k.
void multiply(void* const* lanes, unsigned members) {
  const auto& first = *static_cast<const MultiplyLane*>(lanes[std::countr_zero(members)]);
  if (members != kFullWarp) kernel_error("wmma by a warp that is not whole", *first.place);
  float a[kArea], b[kArea], c[kArea];
  for (int l = 0; l < 32; ++l) {
    const auto& lane = *static_cast<const MultiplyLane*>(lanes[l]);
    for (int i = 0; i < 8; ++i) {
      const int p = wmma_position(l, i);
      a[p] = element(lane.a, i, lane.type);
      b[p] = element(lane.b, i, lane.type);
      c[p] = lane.c[i];
    }
  }
  for (int row = 0; row < kSide; ++row)
    for (int k = 0; k < kSide; ++k)
      for (int column = 0; column < kSide; ++column)
        c[row * kSide + column] += a[row * kSide + k] * b[k * kSide + column];
  for (int l = 0; l < 32; ++l)
    for (int i = 0; i < 8; ++i)
      static_cast<const MultiplyLane*>(lanes[l])->d[i] = c[wmma_position(l, i)];
}

// To the thread sanitizer each lane touches the elements that it gets or gives.
void tell_sanitizer(const TransferLane& lane) {
  if (!race::kOn) return;
  for (int i = 0; i < 8; ++i) {
    const void* at = element_address(lane, wmma_position(lane_id(), i));
    lane.store ? race::write(at, static_cast<std::size_t>(lane.bytes))
               : race::read(at, static_cast<std::size_t>(lane.bytes));
  }
}

}  // namespace

void wmma_load(void* x, int elements, MatrixElement type, const MatrixAddress& from,
               const Place& place) {
  TransferLane lane{x, elements, size_of(type), from, false, &place};
  tell_sanitizer(lane);
  warp_operation(WarpKind::Matrix, kFullWarp, &lane, transfer, place);
}

void wmma_store(const void* x, int elements, MatrixElement type, const MatrixAddress& to,
                const Place& place) {
  TransferLane lane{const_cast<void*>(x), elements, size_of(type), to, true, &place};
  tell_sanitizer(lane);
  warp_operation(WarpKind::Matrix, kFullWarp, &lane, transfer, place);
}

void wmma_multiply(float* d, const void* a, const void* b, const float* c, MatrixElement type,
                   const Place& place) {
  MultiplyLane lane{d, a, b, c, type, &place};
  warp_operation(WarpKind::Matrix, kFullWarp, &lane, multiply, place);
}

}  // namespace emulator
