#include "padded_matmul.h"

#include <utility>

#include "chimera/base/log.h"
#include "ops/kernels.h"
#include "ops/storage_type.h"

namespace chimera::cuda {
namespace {

constexpr Index kRowBytes = 128;  // rows of copies begin at a multiple of this

// A matrix of a call as it lies in memory, and its copy.
struct Matrix {
  void* data;
  DType type;
  Index rows, columns;
  bool unaligned() const { return type != DType::F32 && columns * size_of(type) % kPackBytes != 0; }
  Index copy_row() const { return round_up(columns * size_of(type), kRowBytes) / size_of(type); }
  Index copy_bytes() const {
    return unaligned() ? checked_mul(checked_mul(rows, copy_row()), size_of(type)) : 0;
  }
};
Matrix matrix_a(const MatmulCall& c) {
  return {const_cast<void*>(c.a), c.in, c.transpose_a ? c.K : c.M, c.transpose_a ? c.M : c.K};
}
Matrix matrix_b(const MatmulCall& c) {
  return {const_cast<void*>(c.b), c.in, c.transpose_b ? c.N : c.K, c.transpose_b ? c.K : c.N};
}
Matrix matrix_out(const MatmulCall& c) { return {c.out, c.out_type, c.M, c.N}; }

bool eligible(const MatmulCall& c) {
  const Index bytes =
      matrix_a(c).copy_bytes() + matrix_b(c).copy_bytes() + matrix_out(c).copy_bytes();
  return bytes > 0 && bytes <= kMostPaddedBytes && !(c.add && matrix_out(c).unaligned());
}

void copy(const Matrix& m, void* to, Index to_row, const void* from, Index from_row,
          cudaStream_t stream) {
  for_storage(m.type, [&](auto at) {
    using T = typename decltype(at)::Type;
    copy_2d(static_cast<T*>(to), to_row, static_cast<const T*>(from), from_row, m.rows, m.columns,
            stream);
  });
}

}  // namespace

void PaddedMatmul::run(const MatmulCall& c) {
  if (!eligible(c)) return matmul_->run(c);
  const Index way = 4 * c.transpose_a + 2 * c.transpose_b + c.add;
  const TunedCase tuned{TunedOp::PaddedMatmul, c.in, c.M, c.K, c.N, way};
  std::optional<bool> wins = autotuner_->decided(tuned);
  if (!wins && !capturing(stream_)) {  // what is added to is timed elsewhere
    const TrialMemory trial(c.add ? checked_mul(checked_mul(c.M, c.N), size_of(c.out_type)) : 0);
    MatmulCall timed = c;
    if (c.add) timed.out = trial.get();
    if (timed.out != nullptr)
      wins = autotuner_->library_wins(
          tuned, [&] { return run_padded(timed); }, [&] { return matmul_->run(timed), true; });
  }
  if (!wins.value_or(false) || !run_padded(c)) matmul_->run(c);
}

bool PaddedMatmul::run_padded(const MatmulCall& c) {
  const Matrix a = matrix_a(c), b = matrix_b(c), out = matrix_out(c);
  std::byte* memory = nullptr;
  try {
    memory = copies_.get<std::byte>(a.copy_bytes() + b.copy_bytes() + out.copy_bytes());
  } catch (const Error& e) {
    log_info("GPU: products with unaligned rows are not padded: ", e.what());
    return false;
  }
  MatmulCall on = c;
  const auto take = [&](const Matrix& m, Index& row) -> void* {
    if (!m.unaligned()) return m.data;
    row = m.copy_row();
    return std::exchange(memory, memory + m.copy_bytes());
  };
  on.a = take(a, on.row_a);
  on.b = take(b, on.row_b);
  on.out = take(out, on.row_out);
  if (a.unaligned()) copy(a, const_cast<void*>(on.a), on.row_a, a.data, a.columns, stream_);
  if (b.unaligned()) copy(b, const_cast<void*>(on.b), on.row_b, b.data, b.columns, stream_);
  matmul_->run(on);
  if (out.unaligned()) copy(out, out.data, out.columns, on.out, on.row_out, stream_);
  return true;
}

}  // namespace chimera::cuda
