#pragma once
// Plain numbers that the kernels of every backend are given. No functions and no C++ library: the
// CPU's kernel files include this (kernels/cpu/kernels.h says why).
#include <stdint.h>

namespace chimera {

// Element e of a sample is kept when (word e % 4 of philox(key, {e / 4, sample, stream}) >> 8) >=
// threshold, and then multiplied by scale. threshold 0: no dropout.
struct Mask {
  int32_t threshold = 0;
  float scale = 1;
  uint32_t key[2] = {0, 0};
  uint32_t stream = 0;
  int64_t first_sample = 0;
};

// Queries, keys and values of one call of attention; rows of one head are `head` numbers long.
struct AttentionShape {
  int64_t B, H, T;        // T: rows of queries per sample
  int64_t head;           // size of a head
  int64_t first;          // position of query row 0; row r attends to keys 0 ... first + r
  int64_t q_row, kv_row;  // distance between rows of queries, of keys and values
  int64_t q_sample, kv_sample;
  int64_t out_row;  // distance between rows of out, dout: H * head
};

struct AdamWNumbers {
  float rate, decay_factor;  // decay_factor = 1 - rate * decay
  float beta1, beta2, grad_scale;
  float m_correction, v_correction;  // 1 / (1 - beta^t)
  float epsilon;
};

// Elements of a block of sum_squares.
inline constexpr int64_t kSumBlock = 4096;
// The largest size of a head: it bounds the attention kernels' buffers.
inline constexpr int64_t kMaxHead = 256;

}  // namespace chimera
