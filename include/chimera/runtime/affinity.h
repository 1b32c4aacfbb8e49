#pragma once
#include <optional>
#include <string>
#include <vector>

#include "chimera/base/file.h"

namespace chimera {

// "0-3,8" -> 0 1 2 3 8; nothing where the text is no such list.
std::optional<std::vector<int>> parse_cpu_list(const std::string& text);

// Pins the calling thread, and those it will start, to the CPU cores nearest the GPU with PCI
// address `bus` ("0000:1B:00.0"). Where the launcher has bound the process already, or the system
// does not say which they are, nothing happens. Returns whether it was pinned.
bool pin_near(const std::string& bus, const Path& pci_devices = "/sys/bus/pci/devices");

}  // namespace chimera
