// Causal attention, backward: the probabilities are recomputed from the saved log-sum-exp, tile by
// tile (Dao et al., FlashAttention, 2022, algorithm 4). With P the probabilities, M the dropout
// multipliers and delta = rowsum(dout * out): dV = (P M)' dout, dS = P * (M * (dout V') - delta),
// dQ = dS K, dK = dS' Q, the last two scaled.
#include "attention_tile.h"
#include "per_isa.h"

namespace {

constexpr Index kTile = 64;  // keys of a tile

struct Panel {
  alignas(64) float q[kMaxHead * kPanel];          // (head, queries), scaled
  alignas(64) float dout[kMaxHead * kPanel];       // (head, queries)
  alignas(64) float dq[kMaxHead * kPanel];         // (head, queries)
  alignas(64) float q_rows[kPanel * kMaxHead];     // (queries, head rounded up), scaled
  alignas(64) float dout_rows[kPanel * kMaxHead];  // (queries, head rounded up)
  alignas(64) float lse[kPanel], delta[kPanel];
  alignas(64) float p[kTile * kPanel];   // (keys, queries): scores, then probabilities
  alignas(64) float ds[kTile * kPanel];  // (keys, queries): dout V', then dS
  alignas(64) float keep[kTile * kPanel];
};

// Copies rows with their ends padded with zeros to `padded` columns; missing rows become 0.
void copy_rows(float* to, const float* from, Index from_row, Index rows, Index columns,
               Index padded, float scale) {
  for (Index r = 0; r < kPanel; ++r)
    for (Index c = 0; c < padded; c += kLanes) {
      Vec v = {};
      if (r < rows && c + kLanes <= columns)
        v = load(from + r * from_row + c);
      else if (r < rows)
        v = load(from + r * from_row + c, static_cast<int>(columns - c));
      store(to + r * padded + c, v * scale);
    }
}

// From p = scores and ds = dout V': p = probabilities times multipliers, ds = dS. `ahead` as in
// hide_future of the forward pass.
template <bool kDiagonal, bool kDropout>
void probabilities(Panel& panel, Index keys, Index ahead) {
  for (int v = 0; v < 2; ++v) {
    const Vec lse = load(panel.lse + v * kLanes), delta = load(panel.delta + v * kLanes);
    for (Index j = 0; j < keys; ++j) {
      const Index at = j * kPanel + v * kLanes;
      Vec p = exp_upto_1(load(panel.p + at) - lse), dp = load(panel.ds + at);
      if (kDiagonal) {
        const int32_t first_lane = static_cast<int32_t>(ahead + j) - v * kLanes;
        p = lane_numbers() < first_lane ? splat(0) : p;
      }
      const Vec keep = kDropout ? load(panel.keep + at) : splat(1);
      store(panel.ds + at, p * ((kDropout ? dp * keep : dp) - delta));
      store(panel.p + at, kDropout ? p * keep : p);
    }
  }
}

// What one head's loop needs, with pointers at the head's first number.
struct Head {
  float *dq, *dk, *dv, *delta;
  const float *dout, *out, *lse, *q, *k, *v;
  Index h;
  uint64_t sample;
};

void load_panel(Panel& p, const Head& head, const AttentionShape& s, Index i, Index queries,
                Index padded, float scale) {
  const float* q = head.q + i * s.q_row;
  const float *dout = head.dout + i * s.out_row, *out = head.out + i * s.out_row;
  pack_panel(p.q, q, s.q_row, queries, s.head, scale);
  pack_panel(p.dout, dout, s.out_row, queries, s.head, 1);
  copy_rows(p.q_rows, q, s.q_row, queries, s.head, padded, scale);
  copy_rows(p.dout_rows, dout, s.out_row, queries, s.head, padded, 1);
  for (Index r = 0; r < kPanel; ++r) {
    p.lse[r] = r < queries ? head.lse[i + r] : 0;
    Vec sum = {};
    if (r < queries)
      for_vectors(0, s.head, [&](Index d, auto n) {
        sum += load(dout + r * s.out_row + d, n) * load(out + r * s.out_row + d, n);
      });
    p.delta[r] = sum_lanes(sum);
    if (r < queries) head.delta[i + r] = p.delta[r];
  }
}

template <bool kDiagonal>
void do_tile(Panel& p, const Head& head, const AttentionShape& s, const Mask& mask, Index i,
             Index j, Index keys, Index queries, Index padded) {
  const float *k = head.k + j * s.kv_row, *v = head.v + j * s.kv_row;
  panel_product<2, false>(p.p, kPanel, {k, s.kv_row, 1}, p.q, kPanel, keys, s.head, Full{});
  panel_product<2, false>(p.ds, kPanel, {v, s.kv_row, 1}, p.dout, kPanel, keys, s.head, Full{});
  if (mask.threshold != 0) {
    keep_tile(p.keep, static_cast<uint64_t>((head.h * s.T + i) * s.T), s.T, j, keys, head.sample,
              mask);
    probabilities<kDiagonal, true>(p, keys, j - i);
  } else {
    probabilities<kDiagonal, false>(p, keys, j - i);
  }
  if (j == 0)
    panel_product<2, false>(p.dq, kPanel, {k, 1, s.kv_row}, p.ds, kPanel, s.head, keys, Full{});
  else
    panel_product<2, true>(p.dq, kPanel, {k, 1, s.kv_row}, p.ds, kPanel, s.head, keys, Full{});
  // A panel's diagonal tile is the first to reach its keys.
  float *dk = head.dk + j * s.kv_row, *dv = head.dv + j * s.kv_row;
  row_product<!kDiagonal>(dk, s.kv_row, {p.ds, kPanel, 1}, p.q_rows, padded, keys, queries, s.head);
  row_product<!kDiagonal>(dv, s.kv_row, {p.p, kPanel, 1}, p.dout_rows, padded, keys, queries,
                          s.head);
}

void do_head(Panel& p, const Head& head, const AttentionShape& s, const Mask& mask) {
  const Index padded = (s.head + kLanes - 1) / kLanes * kLanes;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(s.head));
  alignas(64) float scales[kPanel];
  for (float& x : scales) x = scale;
  for (Index i = 0; i < s.T; i += kPanel) {
    const Index queries = s.T - i < kPanel ? s.T - i : kPanel;
    load_panel(p, head, s, i, queries, padded, scale);
    for (Index j = 0; j < i; j += kTile)
      do_tile<false>(p, head, s, mask, i, j, i - j < kTile ? i - j : kTile, queries, padded);
    do_tile<true>(p, head, s, mask, i, i, queries, queries, padded);
    unpack_panel(head.dq + i * s.q_row, s.q_row, p.dq, scales, queries, s.head);
  }
}

void attention_backward(float* dq, float* dk, float* dv, float* delta, const float* dout,
                        const float* out, const float* lse, const float* q, const float* k,
                        const float* v, const AttentionShape& s, const Mask& mask, Index begin,
                        Index end) {
  Panel panel;
  for (Index unit = begin; unit < end; ++unit) {
    const Index b = unit / s.H, h = unit % s.H;
    const Index of_q = b * s.q_sample + h * s.head, of_kv = b * s.kv_sample + h * s.head;
    const Index of_out = b * s.T * s.out_row + h * s.head;
    const Head head{dq + of_q,
                    dk + of_kv,
                    dv + of_kv,
                    delta + unit * s.T,
                    dout + of_out,
                    out + of_out,
                    lse + unit * s.T,
                    q + of_q,
                    k + of_kv,
                    v + of_kv,
                    h,
                    static_cast<uint64_t>(mask.first_sample + b)};
    do_head(panel, head, s, mask);
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_attention_backward(Kernels& k) { k.attention_backward = attention_backward; }
}  // namespace chimera::cpu::CHIMERA_ISA
