#pragma once
// What was measured on a machine: written by `chimera bench step|p2p|allreduce --save`, read by the
// planner as the cluster "this machine".
#include <optional>
#include <string>
#include <vector>

#include "chimera/plan/cluster.h"
#include "chimera/plan/times.h"

namespace chimera::plan {

// Seconds by message size, and the straight line through them (least squares of relative errors).
struct MeasuredLink {
  std::string transport;  // local, mpi
  Index ranks = 2;
  double alpha = 0, beta = 0;  // seconds; seconds per byte
  struct Point {
    double bytes = 0, seconds = 0;
  };
  std::vector<Point> points;
};

// One model shape at one micro-batch, measured while every other core was as busy.
struct MeasuredStep {
  std::string name;
  Index C = 0, H = 0, V = 0, T = 0, B = 1, threads = 1, workers = 1;
  bool dropout = false;
  PieceTimes times;
};

struct Calibration {
  std::string machine;  // processor, cores, build
  Index cores = 0;
  double memory_bytes = 0;  // of the machine
  std::vector<MeasuredStep> steps;
  std::vector<MeasuredLink> p2p, allreduce;  // one per transport and number of ranks
};

Calibration parse_calibration(const std::string& text, const std::string& name);
Calibration read_calibration(const std::string& path);
std::string to_json(const Calibration& calibration);
// Adds what `fresh` measured to the file at `path` (made where there is none): an entry of the same
// kind (shape and threads; transport and ranks) is replaced. Refuses a file of another machine.
void merge_into(const std::string& path, const Calibration& fresh);

// alpha + beta * bytes through the points; relative errors are minimised, so small messages count
// as much as large ones. alpha and beta are at least 0. Needs two different sizes.
void fit_line(MeasuredLink& link);
// The same for reductions over `ranks` members, with the terms of the cost below.
void fit_reduction(MeasuredLink& link);
// Seconds of a reduction of `bytes` over r members, by Rabenseifner's cost with the link's alpha
// and beta: 2 log2(r) alpha + 2 (r - 1) / r beta bytes (paper, section 3.4).
double allreduce_seconds(double alpha, double beta, double bytes, double r);

// Of a shape that was measured (any number of layers, tied or not): between and beyond the measured
// B by a straight line. UsageError, with the command to run, for a shape that was not.
PieceTimes measured_times(const Calibration& calibration, const model::ModelConfig& model, Index B,
                          Index T);

// This machine as a cluster of one node: a device is `threads` cores.
Cluster cluster_of(const Calibration& calibration, const std::string& transport);

}  // namespace chimera::plan
