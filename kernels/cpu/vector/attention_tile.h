#pragma once
// What attention's two directions share. The lanes of a vector are queries: a panel of 2 * kLanes
// queries is packed transposed once, and then every product takes its keys and values straight from
// their rows, one number broadcast at a time. Softmax runs down a tile of scores (keys, queries)
// without any sum across lanes.
#include "philox.h"

namespace {

using chimera::cpu::AttentionShape;

constexpr int kPanel = 2 * kLanes;  // queries of a panel
constexpr int kMaxHead = chimera::kMaxHead;

// Numbers A(r, k) = data[r * row + k * depth].
struct Strided {
  const float* data;
  Index row, depth;
  CHIMERA_INLINE Strided from_row(Index r) const { return {data + r * row, row, depth}; }
};

// c (kRows, kVecs vectors, the last one with `last` lanes) = or += a (kRows, depth) b (depth, ...).
template <int kRows, int kVecs, bool kAdd, class Lanes>
CHIMERA_INLINE void block_product(float* c, Index c_row, Strided a, const float* b, Index b_row,
                                  Index depth, Lanes last) {
  Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) {
      const float* from = c + r * c_row + v * kLanes;
      sum[r][v] = !kAdd ? Vec{} : v + 1 < kVecs ? load(from) : load(from, last);
    }
  for (Index k = 0; k < depth; ++k) {
    Vec bv[kVecs];
    for (int v = 0; v < kVecs; ++v) bv[v] = load(b + k * b_row + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec av = splat(a.data[r * a.row + k * a.depth]);
      for (int v = 0; v < kVecs; ++v) sum[r][v] += av * bv[v];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) {
      float* to = c + r * c_row + v * kLanes;
      if (v + 1 < kVecs)
        store(to, sum[r][v]);
      else
        store(to, sum[r][v], last);
    }
}

// The same for any number of rows: blocks of as many as the registers hold, then halves of it.
constexpr int kBlockRows = kLanes == 16 ? 8 : 4;
template <int kVecs, bool kAdd, class Lanes>
__attribute__((noinline)) void panel_product(float* c, Index c_row, Strided a, const float* b,
                                             Index b_row, Index rows, Index depth, Lanes last) {
  Index r = 0;
  for (; r + kBlockRows <= rows; r += kBlockRows)
    block_product<kBlockRows, kVecs, kAdd>(c + r * c_row, c_row, a.from_row(r), b, b_row, depth,
                                           last);
  if (rows - r >= 4 && kBlockRows > 4) {
    block_product<4, kVecs, kAdd>(c + r * c_row, c_row, a.from_row(r), b, b_row, depth, last);
    r += 4;
  }
  for (; r < rows; ++r)
    block_product<1, kVecs, kAdd>(c + r * c_row, c_row, a.from_row(r), b, b_row, depth, last);
}

// c (rows, width) = or += a (rows, depth) b (depth, width), b's rows padded to whole vectors.
template <bool kAdd>
CHIMERA_INLINE void row_product(float* c, Index c_row, Strided a, const float* b, Index b_row,
                                Index rows, Index depth, Index width) {
  Index w = 0;
  for (; w + 2 * kLanes <= width; w += 2 * kLanes)
    panel_product<2, kAdd>(c + w, c_row, a, b + w, b_row, rows, depth, Full{});
  for (; w + kLanes <= width; w += kLanes)
    panel_product<1, kAdd>(c + w, c_row, a, b + w, b_row, rows, depth, Full{});
  if (w < width)
    panel_product<1, kAdd>(c + w, c_row, a, b + w, b_row, rows, depth, static_cast<int>(width - w));
}

// Rows become columns by log2(kLanes) rounds of interleaving vector i with vector i + kLanes / 2.
CHIMERA_INLINE void transpose(Vec (&v)[kLanes]) {
  IVec low, high;
  for (int i = 0; i < kLanes; ++i) {
    low[i] = i / 2 + (i % 2) * kLanes;
    high[i] = low[i] + kLanes / 2;
  }
  for (int round = 1; round < kLanes; round *= 2) {
    Vec next[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = __builtin_shuffle(v[i], v[i + kLanes / 2], low);
      next[2 * i + 1] = __builtin_shuffle(v[i], v[i + kLanes / 2], high);
    }
    for (int i = 0; i < kLanes; ++i) v[i] = next[i];
  }
}

// out (columns, kPanel) = transpose of x (rows, columns) times scale; rows beyond `rows` give 0.
__attribute__((noinline)) void pack_panel(float* out, const float* x, Index x_row, Index rows,
                                          Index columns, float scale) {
  for (Index r = 0; r < kPanel; r += kLanes)
    for (Index c = 0; c < columns; c += kLanes) {
      const int wide = columns - c < kLanes ? static_cast<int>(columns - c) : kLanes;
      Vec v[kLanes];
      for (Index i = 0; i < kLanes; ++i) {
        const float* from = x + (r + i) * x_row + c;
        v[i] = r + i >= rows ? Vec{} : (wide == kLanes ? load(from) : load(from, wide)) * scale;
      }
      transpose(v);
      for (int i = 0; i < wide; ++i) store(out + (c + i) * kPanel + r, v[i]);
    }
}

// x (rows, columns) = transpose of panel (columns, kPanel), lane i times factor[i].
__attribute__((noinline)) void unpack_panel(float* x, Index x_row, const float* panel,
                                            const float* factor, Index rows, Index columns) {
  for (Index r = 0; r < rows; r += kLanes)
    for (Index c = 0; c < columns; c += kLanes) {
      const int wide = columns - c < kLanes ? static_cast<int>(columns - c) : kLanes;
      const Vec scale = load(factor + r);
      Vec v[kLanes];
      for (int i = 0; i < kLanes; ++i)
        v[i] = i < wide ? load(panel + (c + i) * kPanel + r) * scale : Vec{};
      transpose(v);
      for (Index i = 0; i < kLanes && r + i < rows; ++i) {
        float* to = x + (r + i) * x_row + c;
        if (wide == kLanes)
          store(to, v[i]);
        else
          store(to, v[i], wide);
      }
    }
}

CHIMERA_INLINE IVec lane_numbers() {
  IVec v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

// Multipliers of the probabilities of keys first_key ... + keys - 1 (rows) for the queries of a
// panel (lanes). `element` is the element of (query 0, key 0) of the panel in its sample's (H, T,
// T); a query further is T elements further. Where T is a multiple of 4, a block's words are 4 keys
// of one query.
__attribute__((noinline)) void keep_tile(float* keep, uint64_t element, Index T, Index first_key,
                                         Index keys, uint64_t sample, const Mask& mask) {
  const auto at = [&](Index i) { return element + static_cast<uint64_t>(i * T + first_key); };
  if (T % 4 == 0 && first_key % 4 == 0) {
    IVec evens;
    for (int i = 0; i < kLanes; ++i) evens[i] = 2 * i;
    for (Index group = 0; group < kPanel; group += kLanes) {
      LVec low = block_lanes() * static_cast<uint64_t>(T / 4) + at(group) / 4;
      LVec high = low + static_cast<uint64_t>(kBlocks * (T / 4));
      for (Index j = 0; j < keys; j += 4, low += 1, high += 1) {
        const Words a = philox(low, sample, mask), b = philox(high, sample, mask);
        for (Index w = 0; w < 4 && j + w < keys; ++w) {
          const UVec bits = __builtin_shuffle((UVec)a.word[w], (UVec)b.word[w], (UVec)evens);
          store(keep + (j + w) * kPanel + group,
                (IVec)(bits >> 8) >= mask.threshold ? splat(mask.scale) : splat(0));
        }
      }
    }
    return;
  }
  for (Index i = 0; i < kPanel; ++i) {
    const Index skip = static_cast<Index>(at(i) % 4);
    for (Index j = -skip; j < keys; j += 2 * kLanes) {
      Vec scales[2];
      dropout_scales(scales, (at(i) + static_cast<uint64_t>(j)) / 4, sample, mask);
      for (Index e = j < 0 ? -j : 0; e < 2 * kLanes && j + e < keys; ++e)
        keep[(j + e) * kPanel + i] = scales[e / kLanes][e % kLanes];
    }
  }
}

}  // namespace
