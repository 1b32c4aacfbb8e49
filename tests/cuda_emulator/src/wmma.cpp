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

// The lanes must agree; what they have moved by then is theirs.
void check_warp(void* const* lanes, unsigned members) {
  const auto& first = *static_cast<const TransferLane*>(lanes[std::countr_zero(members)]);
  if (members != kFullWarp) kernel_error("wmma by a warp that is not whole", *first.place);
  for (int l = 0; l < 32; ++l) {
    const auto& lane = *static_cast<const TransferLane*>(lanes[l]);
    if (lane.matrix.memory != first.matrix.memory || lane.matrix.leading != first.matrix.leading ||
        lane.matrix.columns != first.matrix.columns || lane.store != first.store)
      kernel_error("wmma whose lanes name different matrices", *lane.place);
  }
}

template <class T>
void move(const TransferLane& lane) {
  for (int i = 0; i < lane.elements; ++i) {
    auto* memory = reinterpret_cast<T*>(element_address(lane, wmma_position(lane_id(), i % 8)));
    T* const element = static_cast<T*>(lane.x) + i;
    lane.store ? race::write(memory, sizeof(T)) : race::read(memory, sizeof(T));
    (lane.store ? *memory : *element) = lane.store ? *element : *memory;
  }
}

// Each lane moves its elements when it comes: wmma orders no memory, so what other lanes wrote
// without
// __syncwarp is seen or not.
void transfer(TransferLane lane) {
  check(lane);
  lane.bytes == 2 ? move<std::uint16_t>(lane) : move<float>(lane);
  warp_operation(WarpKind::Matrix, kFullWarp, &lane, check_warp, *lane.place);
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

}  // namespace

void wmma_load(void* x, int elements, MatrixElement type, const MatrixAddress& from,
               const Place& place) {
  transfer({x, elements, size_of(type), from, false, &place});
}

void wmma_store(const void* x, int elements, MatrixElement type, const MatrixAddress& to,
                const Place& place) {
  transfer({const_cast<void*>(x), elements, size_of(type), to, true, &place});
}

void wmma_multiply(float* d, const void* a, const void* b, const float* c, MatrixElement type,
                   const Place& place) {
  MultiplyLane lane{d, a, b, c, type, &place};
  warp_operation(WarpKind::Matrix, kFullWarp, &lane, multiply, place);
}

}  // namespace emulator
