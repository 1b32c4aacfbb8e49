#include "gpu_report.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "chimera/base/format.h"
#include "chimera/plan/footprint.h"

namespace chimera::cli {
namespace {

constexpr int kLabel = 15;  // columns before what is said

std::string describe(const CudaDeviceInfo& d) {
  if (d.capability == 0) return d.problem;
  std::string text =
      concat(d.name, ", capability ", d.capability / 10, ".", d.capability % 10, ", ",
             d.multiprocessors, " multiprocessors, ", human_bytes(d.memory_bytes, 2));
  if (d.free_bytes > 0) text += concat(" (", human_bytes(d.free_bytes, 2), " free)");
  if (!d.bus.empty()) text += ", " + d.bus;
  return d.problem.empty() ? text : text + "; " + d.problem;
}

// A cross where the row's device reaches the column's memory.
void add_peers(std::ostream& out, const std::vector<CudaDeviceInfo>& devices) {
  out << std::left << std::setw(kLabel) << "peer access" << std::right;
  for (const CudaDeviceInfo& to : devices) out << std::setw(3) << to.ordinal;
  for (const CudaDeviceInfo& from : devices) {
    out << "\n" << std::left << std::setw(kLabel) << concat("  gpu ", from.ordinal) << std::right;
    for (const CudaDeviceInfo& to : devices)
      out << std::setw(3)
          << (to.ordinal == from.ordinal                                      ? "-"
              : std::ranges::find(from.peers, to.ordinal) != from.peers.end() ? "x"
                                                                              : ".");
  }
  out << "\n";
}

}  // namespace

std::string gpu_report(const std::vector<CudaLibrary>& libraries, const std::string& problem,
                       const std::vector<CudaDeviceInfo>& devices) {
  std::ostringstream out;
  out << std::left;
  for (std::size_t i = 0; i < libraries.size(); ++i)
    out << std::setw(kLabel) << (i == 0 ? "cuda" : "") << libraries[i].name << " "
        << libraries[i].version << "\n";
  if (!problem.empty())
    out << std::setw(kLabel) << "gpu"
        << "none: " << problem << "\n";
  for (const CudaDeviceInfo& d : devices)
    out << std::setw(kLabel) << concat("gpu ", d.ordinal) << describe(d) << "\n";
  if (devices.size() > 1) add_peers(out, devices);
  return out.str();
}

std::string gpu_report() { return gpu_report(cuda_libraries(), cuda_problem(), cuda_devices()); }

}  // namespace chimera::cli
