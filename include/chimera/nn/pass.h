#pragma once
// What a layer is given: it owns no memory. Weights, gradients, activations and scratch are Flats
// whose layouts the layers declared themselves, so any number of micro-batches, weight versions and
// gradient accumulators can be in flight.
#include "chimera/ops/ops.h"
#include "chimera/tensor/layout.h"

namespace chimera::nn {

enum class Mode { Train, Evaluate };  // Evaluate: no dropout, no gradients

// The samples of one micro-batch within a buffer that may span several: views of their rows.
struct BufferView {
  Flat memory;
  Index first = 0;    // first sample within the buffer
  Index samples = 0;  // B
  Index T = 0;        // tokens per sample
  // A region whose dimension 0 is rows (samples * T), or samples.
  Tensor rows(const Region& r) const { return memory.at(r).rows(first * T, samples * T); }
  Tensor per_sample(const Region& r) const { return memory.at(r).rows(first, samples); }
};

struct Pass {
  Ops& ops;
  Mode mode = Mode::Train;
  Flat weights;                                        // of the stage
  Flat gradients;                                      // accumulator of (pipe, stage)
  Flat tied_weights;                                   // of the tied embedding matrix
  Flat tied_embedding_gradients, tied_head_gradients;  // accumulators of (pipe, use)
  BufferView boundary;     // what travels, of these samples: Stage::boundary_layout
  BufferView activations;  // what backward needs, of the same samples: Stage::activation_layout
  Flat workspace;
  std::uint64_t dropout_seed = 0;
  Index first_sample = 0;  // global number of the first of these samples
  float loss_scale = 0;    // 1 / (tokens of the whole step)

  // The workspace as the rows of these samples.
  BufferView scratch() const { return {workspace, 0, activations.samples, activations.T}; }
  Dropout dropout(float probability, int layer, DropoutSite site) const {
    return {mode == Mode::Train ? probability : 0.0f, dropout_seed, first_sample, layer, site};
  }
};

}  // namespace chimera::nn
