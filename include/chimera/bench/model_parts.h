#pragma once
// How long the parts of a model take on this machine: blocks by halves, embeddings, head,
// optimizer.
#include <string>

#include "chimera/comm/communicator.h"
#include "chimera/plan/calibration.h"

namespace chimera::bench {

// On the calling thread's team, while every rank of `comm` does the same: the fastest of `rounds`,
// since what other programs take from the machine is not this one's. The halves of a backward are
// measured apart and scaled to the whole one.
plan::PieceTimes measure_model_parts(Communicator& comm, const model::ModelConfig& model, Index B,
                                     Index T, int rounds);

// This machine in one line, its cores and its memory: what begins a calibration.
plan::Calibration this_machine();

}  // namespace chimera::bench
