#include "references.h"

#include <numbers>

namespace chimera::test {
namespace {

constexpr double kEpsilon = 1e-5;  // of every layer norm in these tests

struct RowMoments {
  double mean, rstd;
};
RowMoments moments(const double* x, Index C) {
  double mean = 0, variance = 0;
  for (Index c = 0; c < C; ++c) mean += x[c] / static_cast<double>(C);
  for (Index c = 0; c < C; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(C);
  return {mean, 1 / std::sqrt(variance + kEpsilon)};
}

double dot(const double* a, const double* b, Index n) {
  double sum = 0;
  for (Index i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// One query of one head: pointers into qkv and the row of multipliers.
struct Query {
  const double *q, *k, *v;  // k, v: key 0 of the head
  Index row;                // distance between tokens
  Doubles keep;
};
Query query(const Doubles& qkv, AttentionSizes s, const Doubles& multipliers, Index b, Index h,
            Index i) {
  const Index C = s.C();
  const double* base = qkv.data() + b * s.T * 3 * C + h * s.head;
  const auto keep = multipliers.begin() + (h * s.T + i) * s.T;
  return {base + i * 3 * C, base + C, base + 2 * C, 3 * C, Doubles(keep, keep + s.T)};
}

// Probabilities of keys 0 ... i of a query, and the log-sum-exp of its scores.
Doubles softmax_of(const Query& x, Index i, Index head, double& lse) {
  Doubles p(at(i + 1));
  double largest = -INFINITY, sum = 0;
  for (Index j = 0; j <= i; ++j) {
    p[at(j)] = dot(x.q, x.k + j * x.row, head) / std::sqrt(static_cast<double>(head));
    largest = std::max(largest, p[at(j)]);
  }
  for (double& v : p) sum += v = std::exp(v - largest);
  for (double& v : p) v /= sum;
  lse = largest + std::log(sum);
  return p;
}

// -log of the probability of each word, in double.
Doubles surprise(const double* x, Index V) {
  double largest = x[0], sum = 0;
  for (Index v = 0; v < V; ++v) largest = std::max(largest, x[v]);
  for (Index v = 0; v < V; ++v) sum += std::exp(x[v] - largest);
  Doubles out(at(V));
  for (Index v = 0; v < V; ++v) out[at(v)] = largest + std::log(sum) - x[v];
  return out;
}

}  // namespace

Doubles matmul_reference(const Doubles& a, Transpose ta, const Doubles& b, Transpose tb, Index M,
                         Index N, Index K) {
  Doubles out(at(M * N));
  for (Index m = 0; m < M; ++m)
    for (Index k = 0; k < K; ++k)
      for (Index n = 0; n < N; ++n)
        out[at(m * N + n)] += a[at(ta == Transpose::Yes ? k * M + m : m * K + k)] *
                              b[at(tb == Transpose::Yes ? n * K + k : k * N + n)];
  return out;
}

Doubles layernorm_reference(const Doubles& x, const Doubles& gain, const Doubles& bias, Index C) {
  Doubles y(x.size());
  for (Index r = 0; r < std::ssize(x) / C; ++r) {
    const auto [mean, rstd] = moments(x.data() + r * C, C);
    for (Index c = 0; c < C; ++c)
      y[at(r * C + c)] = (x[at(r * C + c)] - mean) * rstd * gain[at(c)] + bias[at(c)];
  }
  return y;
}

LayernormGradients layernorm_gradients(const Doubles& dy, const Doubles& x, const Doubles& gain,
                                       Index C) {
  LayernormGradients d{Doubles(x.size()), Doubles(at(C)), Doubles(at(C))};
  const double n = static_cast<double>(C);
  for (Index r = 0; r < std::ssize(x) / C; ++r) {
    const auto [mean, rstd] = moments(x.data() + r * C, C);
    Doubles g(at(C)), xhat(at(C));
    for (Index c = 0; c < C; ++c) {
      xhat[at(c)] = (x[at(r * C + c)] - mean) * rstd;
      g[at(c)] = dy[at(r * C + c)] * gain[at(c)];
      d.gain[at(c)] += dy[at(r * C + c)] * xhat[at(c)];
      d.bias[at(c)] += dy[at(r * C + c)];
    }
    double average = 0;
    for (const double v : g) average += v / n;
    const double projection = dot(g.data(), xhat.data(), C) / n;
    for (Index c = 0; c < C; ++c)
      d.x[at(r * C + c)] = rstd * (g[at(c)] - average - xhat[at(c)] * projection);
  }
  return d;
}

Doubles gelu_reference(const Doubles& x) {
  Doubles y;
  for (const double v : x)
    y.push_back(0.5 * v *
                (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))));
  return y;
}

Doubles gelu_gradient(const Doubles& dy, const Doubles& x) {
  Doubles dx;
  const double root = std::sqrt(2 / std::numbers::pi);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], t = std::tanh(root * (v + 0.044715 * v * v * v));
    dx.push_back(dy[i] *
                 (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v)));
  }
  return dx;
}

Doubles dropout_multipliers(const Dropout& dropout, Index sample, Index count) {
  Doubles out(at(count), 1.0);
  if (dropout.probability == 0) return out;
  const auto global = static_cast<std::uint64_t>(dropout.first_sample + sample);
  for (Index e = 0; e < count; ++e) {
    const auto block =
        philox4x32({static_cast<std::uint32_t>(e / 4), static_cast<std::uint32_t>(global),
                    static_cast<std::uint32_t>(global >> 32),
                    static_cast<std::uint32_t>(4 * dropout.layer + static_cast<int>(dropout.site))},
                   philox_key(dropout.seed));
    const bool kept = uniform_float(block[at(e % 4)]) >= dropout.probability;
    out[at(e)] = kept ? 1 / (1 - static_cast<double>(dropout.probability)) : 0;
  }
  return out;
}

AttentionResult attention_reference(const Doubles& qkv, AttentionSizes s, const Dropout& dropout) {
  const Index C = s.C();
  AttentionResult result{Doubles(at(s.B * s.T * C)), Doubles(at(s.B * s.H * s.T))};
  for (Index b = 0; b < s.B; ++b) {
    const Doubles keep = dropout_multipliers(dropout, b, s.H * s.T * s.T);
    for (Index h = 0; h < s.H; ++h)
      for (Index i = 0; i < s.T; ++i) {
        const Query x = query(qkv, s, keep, b, h, i);
        const Doubles p = softmax_of(x, i, s.head, result.lse[at((b * s.H + h) * s.T + i)]);
        for (Index j = 0; j <= i; ++j)
          for (Index d = 0; d < s.head; ++d)
            result.out[at((b * s.T + i) * C + h * s.head + d)] +=
                p[at(j)] * x.keep[at(j)] * x.v[j * x.row + d];
      }
  }
  return result;
}

Doubles attention_gradient(const Doubles& dout, const Doubles& qkv, AttentionSizes s,
                           const Dropout& dropout) {
  const Index C = s.C();
  const double scale = 1 / std::sqrt(static_cast<double>(s.head));
  Doubles dqkv(qkv.size());
  for (Index b = 0; b < s.B; ++b) {
    const Doubles keep = dropout_multipliers(dropout, b, s.H * s.T * s.T);
    for (Index h = 0; h < s.H; ++h)
      for (Index i = 0; i < s.T; ++i) {
        const Query x = query(qkv, s, keep, b, h, i);
        double lse = 0;
        const Doubles p = softmax_of(x, i, s.head, lse);
        const double* d_row = dout.data() + (b * s.T + i) * C + h * s.head;
        double* dq = dqkv.data() + (x.q - qkv.data());
        double *dk = dqkv.data() + (x.k - qkv.data()), *dv = dk + C;
        Doubles dp(at(i + 1));
        for (Index j = 0; j <= i; ++j)
          dp[at(j)] = dot(d_row, x.v + j * x.row, s.head) * x.keep[at(j)];
        const double delta = dot(dp.data(), p.data(), i + 1);
        for (Index j = 0; j <= i; ++j) {
          const double ds = p[at(j)] * (dp[at(j)] - delta) * scale;
          for (Index d = 0; d < s.head; ++d) {
            dq[d] += ds * x.k[j * x.row + d];
            dk[j * x.row + d] += ds * x.q[d];
            dv[j * x.row + d] += p[at(j)] * x.keep[at(j)] * d_row[d];
          }
        }
      }
  }
  return dqkv;
}

Doubles cross_entropy_reference(const Doubles& logits, const Ids& targets, double smoothing,
                                Index V) {
  Doubles losses;
  for (Index r = 0; r < std::ssize(targets); ++r) {
    const Doubles s = surprise(logits.data() + r * V, V);
    double mean = 0;
    for (const double v : s) mean += v / static_cast<double>(V);
    losses.push_back((1 - smoothing) * s[at(targets[at(r)])] + smoothing * mean);
  }
  return losses;
}

Doubles cross_entropy_gradient(const Doubles& logits, const Ids& targets, double smoothing,
                               double scale, Index V) {
  Doubles d(logits.size());
  for (Index r = 0; r < std::ssize(targets); ++r) {
    const Doubles s = surprise(logits.data() + r * V, V);
    for (Index v = 0; v < V; ++v)
      d[at(r * V + v)] = scale * (std::exp(-s[at(v)]) - smoothing / static_cast<double>(V) -
                                  (v == targets[at(r)] ? 1 - smoothing : 0));
  }
  return d;
}

}  // namespace chimera::test
