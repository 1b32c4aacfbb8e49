// Causal attention, forward: tiles of keys against a panel of queries with online softmax
// (Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022). Memory beyond the output: one
// panel and one tile on the stack.
#include <math.h>

#include "attention_tile.h"
#include "per_isa.h"

namespace {

constexpr Index kTile = 128;  // keys of a tile

struct Panel {
  alignas(64) float q[kMaxHead * kPanel];    // (head, queries), scaled
  alignas(64) float out[kMaxHead * kPanel];  // (head, queries), not yet divided by the sum
  alignas(64) float scores[kTile * kPanel];  // (keys, queries), then probabilities
  alignas(64) float keep[kTile * kPanel];
  alignas(64) float max[kPanel], sum[kPanel];
};

// Scores of keys that come after their query become -infinity. `ahead`: first key of the tile
// minus position of the panel's first query.
void hide_future(float* scores, Index keys, Index ahead) {
  for (Index j = ahead < 0 ? -ahead : 0; j < keys; ++j)
    for (int v = 0; v < 2; ++v) {
      float* row = scores + j * kPanel + v * kLanes;
      const int32_t first_lane = static_cast<int32_t>(ahead + j) - v * kLanes;
      store(row, lane_numbers() < first_lane ? splat(-__builtin_inff()) : load(row));
    }
}

// scores -> exp(scores - max so far), sums and the output so far brought to the new maximum.
void online_softmax(Panel& p, Index keys, Index head, bool first, bool dropout) {
  for (int v = 0; v < 2; ++v) {
    float* scores = p.scores + v * kLanes;
    const Vec before = load(p.max + v * kLanes);
    Vec best = before;
    for (Index j = 0; j < keys; ++j) best = max(load(scores + j * kPanel), best);
    const Vec correction = exp_upto_1(before - best);
    Vec total = load(p.sum + v * kLanes) * correction;
    for (Index j = 0; j < keys; ++j) {
      const Vec e = exp_upto_1(load(scores + j * kPanel) - best);
      total += e;
      store(scores + j * kPanel, dropout ? e * load(p.keep + j * kPanel + v * kLanes) : e);
    }
    store(p.max + v * kLanes, best);
    store(p.sum + v * kLanes, total);
    if (first) continue;
    for (Index d = 0; d < head; ++d) {
      float* out = p.out + d * kPanel + v * kLanes;
      store(out, load(out) * correction);
    }
  }
}

void finish_panel(Panel& p, float* out, Index out_row, float* lse, Index queries, Index head) {
  alignas(64) float inverse[kPanel];
  for (int i = 0; i < kPanel; ++i) inverse[i] = 1.0f / p.sum[i];
  unpack_panel(out, out_row, p.out, inverse, queries, head);
  if (lse == nullptr) return;
  for (Index i = 0; i < queries; ++i) lse[i] = p.max[i] + logf(p.sum[i]);
}

void attention_forward(float* out, float* lse, const float* q, const float* k, const float* v,
                       const AttentionShape& s, const Mask& mask, Index begin, Index end) {
  Panel p;
  const Index D = s.head;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(D));
  for (Index unit = begin; unit < end; ++unit) {
    const Index b = unit / s.H, h = unit % s.H;
    const float* head_q = q + b * s.q_sample + h * D;
    const float* head_k = k + b * s.kv_sample + h * D;
    const float* head_v = v + b * s.kv_sample + h * D;
    for (Index i = 0; i < s.T; i += kPanel) {
      const Index queries = s.T - i < kPanel ? s.T - i : kPanel;
      const Index position = s.first + i, keys = position + queries;
      pack_panel(p.q, head_q + i * s.q_row, s.q_row, queries, D, scale);
      for (int lane = 0; lane < kPanel; ++lane) p.max[lane] = -__builtin_inff(), p.sum[lane] = 0;
      for (Index j = 0; j < keys; j += kTile) {
        const Index n = keys - j < kTile ? keys - j : kTile;
        panel_product<2, false>(p.scores, kPanel, {head_k + j * s.kv_row, s.kv_row, 1}, p.q, kPanel,
                                n, D, Full{});
        if (j + n > position) hide_future(p.scores, n, j - position);
        if (mask.threshold != 0)
          keep_tile(p.keep, static_cast<uint64_t>((h * s.T + i) * s.T), s.T, j, n,
                    static_cast<uint64_t>(mask.first_sample + b), mask);
        online_softmax(p, n, D, j == 0, mask.threshold != 0);
        const Strided values{head_v + j * s.kv_row, 1, s.kv_row};
        if (j == 0)
          panel_product<2, false>(p.out, kPanel, values, p.scores, kPanel, D, n, Full{});
        else
          panel_product<2, true>(p.out, kPanel, values, p.scores, kPanel, D, n, Full{});
      }
      finish_panel(p, out + (b * s.T + i) * s.out_row + h * D, s.out_row,
                   lse == nullptr ? nullptr : lse + unit * s.T + i, queries, D);
    }
  }
}

}  // namespace

namespace chimera::cpu::CHIMERA_ISA {
void add_attention_forward(Kernels& k) { k.attention_forward = attention_forward; }
}  // namespace chimera::cpu::CHIMERA_ISA
