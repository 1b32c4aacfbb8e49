#include "chimera/plan/cluster.h"

#include <nlohmann/json.hpp>

#include "chimera/base/file.h"
#include "chimera/base/json_reader.h"

namespace chimera::plan {
namespace {

constexpr Index kClusterFileLimit = Index{1} << 20;
constexpr std::size_t kMostClusterSource = 2000;  // bytes of text on where a number comes from
constexpr JsonFormat kClusterFormat{"chimera-cluster", 1,
                                    "see configs/clusters/README.md for its keys"};

// What no machine of today or of ten years is beyond.
constexpr JsonRange kFlops{1e8, 1e18, "operations per second"};
constexpr JsonRange kFraction{0.001, 1, "(a share of the peak)"};
constexpr JsonRange kDeviceMemory{1e6, 1e15, "bytes"};
constexpr JsonRange kBandwidth{1e5, 1e14, "bytes per second"};
constexpr JsonRange kLinkLatency{0, 1, "seconds"};
constexpr JsonRange kDevices{1, 4096, "devices"};
constexpr JsonRange kNodes{1, 1e7, "nodes"};

// {"value": v, "source": "..."}.
JsonReader value_of(const JsonReader& field) {
  field.only({"value", "source"});
  field["source"].text(kMostClusterSource);
  return field["value"];
}

Link read_cluster_link(const JsonReader& field) {
  field.only({"latency", "bandwidth"});
  return {value_of(field["latency"]).number(kLinkLatency),
          value_of(field["bandwidth"]).number(kBandwidth)};
}

}  // namespace

Cluster parse_cluster(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name, JsonComments::Allow);
  const JsonReader root = open_format(json, name, kClusterFormat);
  root.only({"format", "version", "name", "device", "devices_per_node", "inter_node"},
            {"intra_node", "nodes"});
  Cluster c;
  c.name = root["name"].text(200);
  const JsonReader device = root["device"];
  device.only({"name", "peak_flops", "achieved_fraction", "memory_bytes", "memory_bandwidth"},
              {"peak_flops_16bit", "achieved_fraction_16bit"});
  c.device = device["name"].text(200);
  c.peak_flops = value_of(device["peak_flops"]).number(kFlops);
  c.achieved_fraction = value_of(device["achieved_fraction"]).number(kFraction);
  if (device.has("peak_flops_16bit"))
    c.peak_flops_16bit = value_of(device["peak_flops_16bit"]).number(kFlops);
  c.achieved_fraction_16bit = device.has("achieved_fraction_16bit")
                                  ? value_of(device["achieved_fraction_16bit"]).number(kFraction)
                                  : c.achieved_fraction;
  c.memory_bytes = value_of(device["memory_bytes"]).number(kDeviceMemory);
  c.memory_bandwidth = value_of(device["memory_bandwidth"]).number(kBandwidth);
  c.devices_per_node = value_of(root["devices_per_node"]).count(kDevices);
  if (root.has("nodes")) c.nodes = value_of(root["nodes"]).count(kNodes);
  c.inter_node = read_cluster_link(root["inter_node"]);
  if (c.devices_per_node > 1)
    ENSURE(root.has("intra_node"), name, ": intra_node is missing; a node has ", c.devices_per_node,
           " devices");
  c.intra_node = root.has("intra_node") ? read_cluster_link(root["intra_node"]) : c.inter_node;
  c.reduction_inter_node = c.inter_node, c.reduction_intra_node = c.intra_node;
  return c;
}

Cluster read_cluster(const std::string& path) {
  return parse_cluster(read_file(path, kClusterFileLimit), path);
}

}  // namespace chimera::plan
