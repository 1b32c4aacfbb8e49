#pragma once
// Machines as numbers: what a device computes and holds, and what messages cost between devices.
#include <string>
#include <vector>

#include "chimera/base/types.h"

namespace chimera::plan {

// Seconds of a message of L bytes: latency + L / bandwidth.
struct Link {
  double latency = 0;    // alpha, seconds
  double bandwidth = 0;  // 1 / beta, bytes per second, one direction
  double seconds(double bytes) const { return latency + bytes / bandwidth; }
};

struct Cluster {
  std::string name, device;
  double peak_flops = 0;         // of one device, fp32 operations per second
  double achieved_fraction = 1;  // of the peak that matrix products of a transformer reach
  double peak_flops_16bit = 0;   // of products of bf16 or fp16 added in fp32; 0: not known
  double achieved_fraction_16bit = 1;
  double memory_bytes = 0;      // of one device, usable by a worker
  double memory_bandwidth = 0;  // bytes per second
  Index devices_per_node = 1;
  Index nodes = 0;  // 0: not limited
  Link inter_node, intra_node;
  Link reduction_inter_node, reduction_intra_node;  // read from a file: as the links
};

// Reads a cluster file (configs/clusters/*.json): every number is {"value": v, "source": "where it
// is from"}. Throws Error with path of the file, key, value and accepted range for what is missing,
// mistyped, negative or absurd, and for keys that it does not know.
Cluster read_cluster(const std::string& path);
// The same from text; `name` begins every message.
Cluster parse_cluster(const std::string& text, const std::string& name);

}  // namespace chimera::plan
