#include "matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "emulator/half_bits.h"

namespace emulator {

std::size_t element_bytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

namespace {

float load(const void* data, std::size_t i, cudaDataType_t type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  const auto bits = static_cast<const std::uint16_t*>(data)[i];
  return type == CUDA_R_16BF ? float_from_bf16(bits) : float_from_fp16(bits);
}

void store(void* data, std::size_t i, cudaDataType_t type, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else
    static_cast<std::uint16_t*>(data)[i] =
        type == CUDA_R_16BF ? bf16_from_float(value) : fp16_from_float(value);
}

// Rounded to the 10 bits of mantissa that tensor cores read of an fp32 number, ties away from zero.
float tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & ~0x1fffu);
}

// op(matrix) as (rows, columns) in fp32, column-major and packed.
std::vector<float> unpacked(const void* data, const MatrixLayout& m, bool transpose, bool round) {
  std::vector<float> out(m.rows * m.columns);
  for (std::size_t column = 0; column < m.columns; ++column)
    for (std::size_t row = 0; row < m.rows; ++row)
      out[transpose ? row * m.columns + column : column * m.rows + row] =
          load(data, column * static_cast<std::size_t>(m.leading) + row, m.type);
  if (round) std::transform(out.begin(), out.end(), out.begin(), tf32);
  return out;
}

float gelu(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}
float gelu_slope(float x) {
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x), t = std::tanh(u);
  return 0.5f * (1.0f + t) +
         0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
}

cudaDataType_t type_or(int type, cudaDataType_t otherwise) {
  return type < 0 ? otherwise : static_cast<cudaDataType_t>(type);
}

// One column of the product, before the epilogue.
void product_column(std::vector<float>& sum, const std::vector<float>& a, const float* b,
                    std::size_t M, std::size_t K, std::size_t split) {
  std::vector<float> part(M);
  sum.assign(M, 0.0f);
  for (std::size_t s = 0; s < split; ++s) {
    std::fill(part.begin(), part.end(), 0.0f);
    for (std::size_t k = K * s / split; k < K * (s + 1) / split; ++k) {
      const float factor = b[k];
      const float* column = a.data() + k * M;
      for (std::size_t i = 0; i < M; ++i) part[i] += column[i] * factor;
    }
    for (std::size_t i = 0; i < M; ++i) sum[i] += part[i];
  }
}

float epilogue(const MatmulProblem& p, float value, std::size_t i, std::size_t j) {
  const MatmulDescriptor& e = p.descriptor;
  const auto aux_type = type_or(e.aux_type, p.d.type);
  const std::size_t aux_at = j * static_cast<std::size_t>(e.aux_leading) + i;
  const int bits = e.epilogue;
  if (bits & CUBLASLT_EPILOGUE_BIAS) value += load(e.bias, i, type_or(e.bias_type, p.d.type));
  if (bits & CUBLASLT_EPILOGUE_GELU) {
    if (bits & 128) store(e.aux, aux_at, aux_type, value);
    value = gelu(value);
  }
  if (bits & 64) value *= gelu_slope(load(e.aux, aux_at, aux_type));
  return value;
}

}  // namespace

void compute(const MatmulProblem& p) {
  const std::size_t M = p.rows(), N = p.columns(), K = p.inner();
  const MatmulDescriptor& e = p.descriptor;
  const bool round = e.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto a = unpacked(p.a_data, p.a, e.transpose_a == CUBLAS_OP_T, round);
  const auto b = unpacked(p.b_data, p.b, e.transpose_b == CUBLAS_OP_T, round);
  const auto bias_type = type_or(e.bias_type, p.d.type);
  std::vector<float> sum, column_sums(e.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD ? M : 0);
  for (std::size_t j = 0; j < N; ++j) {
    product_column(sum, a, b.data() + j * K, M, K, static_cast<std::size_t>(p.split));
    for (std::size_t i = 0; i < M; ++i) {
      float value = p.alpha * sum[i];
      if (p.beta != 0)
        value += p.beta * load(p.c_data, j * static_cast<std::size_t>(p.c.leading) + i, p.c.type);
      value = epilogue(p, value, i, j);
      if (!column_sums.empty()) column_sums[i] += value;
      store(p.d_data, j * static_cast<std::size_t>(p.d.leading) + i, p.d.type, value);
    }
  }
  for (std::size_t i = 0; i < column_sums.size(); ++i) store(e.bias, i, bias_type, column_sums[i]);
  // Bias gradients of the operands: sums over k.
  if (e.epilogue == CUBLASLT_EPILOGUE_BGRADA)
    for (std::size_t i = 0; i < M; ++i) {
      float total = 0;
      for (std::size_t k = 0; k < K; ++k) total += a[k * M + i];
      store(e.bias, i, bias_type, total);
    }
  if (e.epilogue == CUBLASLT_EPILOGUE_BGRADB)
    for (std::size_t j = 0; j < N; ++j) {
      float total = 0;
      for (std::size_t k = 0; k < K; ++k) total += b[j * K + k];
      store(e.bias, j, bias_type, total);
    }
}

}  // namespace emulator
