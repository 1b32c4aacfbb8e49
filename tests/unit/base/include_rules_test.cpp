// Who may include whom (DESIGN section 4, the link lines of CMakeLists.txt), checked on the text of
// every source file; and what the includes draw: no circle, and no header for others that none of
// them includes.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/support.h"

namespace chimera::test {
namespace {

namespace fs = std::filesystem;
using Layers = std::set<std::string>;

// Layer -> the layers whose headers it may include, itself among them. No entry: no such layer.
const std::map<std::string, Layers>& table() {
  static const std::map<std::string, Layers> rules = [] {
    std::map<std::string, Layers> t;
    const auto row = [&](const std::string& layer, std::initializer_list<const char*> below) {
      t[layer] = {layer};
      for (const char* b : below) t[layer].merge(Layers(t.at(b)));
    };
    row("base", {});
    row("schedule", {"base"});
    row("device", {"base"});
    row("tensor", {"device"});
    row("ops", {"tensor"});
    row("comm", {"tensor"});
    row("cuda", {"ops", "comm"});  // kernels/cuda
    row("tokenizer", {"base"});
    row("data", {"tokenizer"});
    row("nn", {"ops"});
    row("optim", {"nn"});  // parameters are declared in nn
    row("model", {"nn"});
    row("checkpoint", {"model"});
    row("plan", {"schedule", "model"});
    row("paper", {"plan"});
    row("setup", {"plan", "optim", "comm"});
    row("runtime", {"setup"});
    row("train", {"runtime", "data", "checkpoint"});
    row("bench", {"runtime"});
    row("cli", {"train", "bench", "paper"});
    t["main"] = {"base", "cli"};
    return t;
  }();
  return rules;
}

// "src/nn/block.cpp" -> "nn"; kernels stand at the level of ops, the GPU's also at that of comm.
std::string layer_of(const fs::path& file) {
  std::vector<std::string> parts;
  for (const fs::path& part : file) parts.push_back(part.string());
  if (parts[0] == "kernels") return parts.at(1) == "cuda" ? "cuda" : "ops";
  if (parts[0] == "include") return parts.at(2);
  return parts.size() == 2 ? "main" : parts.at(1);
}

// Third-party headers by their beginning, and the beginnings of the paths that may include them.
const std::vector<std::pair<std::string, std::vector<std::string>>> kThirdParty = {
    {"mpi.h", {"src/comm/mpi/mpi_transport.cpp"}},
    {"dnnl", {"kernels/cpu/matmul.cpp"}},
    {"oneapi/dnnl", {"kernels/cpu/matmul.cpp"}},
    {"nlohmann/json_fwd.hpp", {"include/chimera/base/json.h", "src/", "kernels/bench/"}},
    {"nlohmann/", {"src/", "kernels/bench/", "kernels/cuda/autotune/"}},
    {"spdlog/", {"src/base/"}},
    {"CLI/", {"src/cli/"}},
    {"xxh", {"src/base/"}},
    {"zstd", {"src/data/"}},
    {"zlib", {"src/data/"}},
    {"cublas", {"kernels/cuda/matmul/"}},
    {"cuda_", {"kernels/cuda/"}},
    {"mma.h", {"kernels/cuda/device/port.h"}},
    {"nccl", {"kernels/cuda/comm/nccl_transport.cpp"}},
};

using Sources = std::map<std::string, std::string>;  // path within the project -> text

// The included names, in order.
std::vector<std::string> includes_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(
        std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }),
        line.end());
    if (line.starts_with("#include") && line.size() > 9)
      out.push_back(line.substr(9, line.find_first_of("\">", 9) - 9));
  }
  return out;
}

// The project's files that each of its files includes: by the path under include/, beside the file,
// or in its layer's folder.
std::map<std::string, std::set<std::string>> arrows(const Sources& sources) {
  std::map<std::string, std::set<std::string>> out;
  for (const auto& [file, text] : sources)
    for (const std::string& target : includes_of(text)) {
      const fs::path path(file), layer_folder = *path.begin() / *std::next(path.begin());
      for (const fs::path& folder : {fs::path("include"), path.parent_path(), layer_folder}) {
        const std::string found = (folder / target).lexically_normal().generic_string();
        if (!sources.contains(found)) continue;
        out[file].insert(found);
        break;
      }
    }
  return out;
}

// "a -> b -> a" for the first circle that is found; empty: there is none.
std::string circle(const std::map<std::string, std::set<std::string>>& arrows) {
  std::set<std::string> done;
  std::vector<std::string> path;
  const std::function<std::string(const std::string&)> visit = [&](const std::string& at) {
    const auto before = std::find(path.begin(), path.end(), at);
    if (before != path.end()) {
      std::string text;
      for (auto step = before; step != path.end(); ++step) text += *step + " -> ";
      return text + at;
    }
    if (!done.insert(at).second || !arrows.contains(at)) return std::string();
    path.push_back(at);
    for (const std::string& next : arrows.at(at))
      if (const std::string found = visit(next); !found.empty()) return found;
    path.pop_back();
    return std::string();
  };
  for (const auto& [file, targets] : arrows)
    if (const std::string found = visit(file); !found.empty()) return found;
  return "";
}

// Headers under include/ that neither another layer nor a test includes, be it by way of other such
// headers: they belong into their layer's folder under src/.
std::vector<std::string> private_headers(const Sources& sources, const Sources& tests) {
  const auto from = arrows(sources);
  std::vector<std::string> open;  // reached from outside of their layer
  for (const auto& [file, targets] : from)
    for (const std::string& header : targets)
      if (header.starts_with("include/") && layer_of(file) != layer_of(header))
        open.push_back(header);
  for (const auto& [file, text] : tests)
    for (const std::string& target : includes_of(text)) open.push_back("include/" + target);
  std::set<std::string> reached;
  while (!open.empty()) {
    const std::string header = open.back();
    open.pop_back();
    if (!reached.insert(header).second || !from.contains(header)) continue;
    open.insert(open.end(), from.at(header).begin(), from.at(header).end());
  }
  std::vector<std::string> out;
  for (const auto& [file, text] : sources)
    if (file.starts_with("include/") && !reached.contains(file)) out.push_back(file);
  return out;
}

// What a file breaks, one line each. `file` is relative to the project.
std::vector<std::string> violations(const fs::path& file, const std::string& text) {
  std::vector<std::string> out;
  const std::string name = file.generic_string(), layer = layer_of(file);
  const auto allowed = table().find(layer);
  if (allowed == table().end()) return {name + ": DESIGN section 4 has no layer " + layer};
  const bool header = name.starts_with("include/");
  if (header && text.find("#pragma once") == text.npos) out.push_back(name + ": no #pragma once");
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == line.npos || line[first] != '#') continue;
    line.erase(
        std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }),
        line.end());
    const auto wrong = [&](const std::string& why) {
      out.push_back(name + ":" + std::to_string(number) + ": " + line + ": " + why);
    };
    if (header && line.starts_with("#if")) wrong("no #if under include/");
    if (!line.starts_with("#include")) continue;
    if (line.size() < 10) {
      wrong("not understood");
      continue;
    }
    const std::string target = line.substr(9, line.find_first_of("\">", 9) - 9);
    if (target.starts_with("chimera/")) {
      const std::string other = target.substr(8, target.find('/', 8) - 8);
      if (!allowed->second.contains(other)) wrong(layer + " may not include " + other);
      continue;
    }
    if (target.find("..") != target.npos &&  // a stub's folder stands within its layer's
        layer_of((file.parent_path() / target).lexically_normal()) != layer)
      wrong("leaves its layer's folder");
    for (const auto& [beginning, places] : kThirdParty) {
      if (!target.starts_with(beginning)) continue;
      if (std::none_of(places.begin(), places.end(),
                       [&](const std::string& place) { return name.starts_with(place); }))
        wrong(beginning + " belongs to " + places.front());
      break;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("includes: the checker finds planted violations and nothing else") {
  const auto count = [](const char* file, const char* line) {
    return violations(file, std::string("#pragma once\n") + line + "\n").size();
  };
  CHECK(count("include/chimera/nn/block.h", "#include \"chimera/ops/ops.h\"") == 0);
  CHECK(count("include/chimera/nn/block.h", "#include \"chimera/device/device.h\"") == 0);
  CHECK(count("include/chimera/nn/block.h", "#include \"chimera/model/stage.h\"") == 1);
  CHECK(count("include/chimera/nn/block.h", "  #  include <chimera/comm/communicator.h>") == 1);
  CHECK(count("src/comm/local.cpp", "#include \"chimera/ops/ops.h\"") == 1);
  CHECK(count("src/schedule/lower.cpp", "#include \"chimera/tensor/tensor.h\"") == 1);
  CHECK(count("kernels/cpu/vector/gelu.cpp", "#include \"chimera/nn/block.h\"") == 1);
  CHECK(count("kernels/cpu/vector/gelu.cpp", "#include \"chimera/comm/communicator.h\"") == 1);
  CHECK(count("kernels/cuda/comm/device_transport.cpp",
              "#include \"chimera/comm/communicator.h\"") == 0);
  CHECK(count("src/checkpoint/writer.cpp", "#include \"chimera/comm/communicator.h\"") == 1);
  CHECK(count("src/train/trainer.cpp", "#include \"chimera/cli/app.h\"") == 1);
  CHECK(count("src/setup/programs.cpp", "#include \"chimera/runtime/worker.h\"") == 1);
  CHECK(count("src/runtime/backend.cpp", "#include \"chimera/setup/memory_check.h\"") == 0);
  CHECK(count("src/runtime/worker.cpp", "#include \"chimera/train/trainer.h\"") == 1);
  CHECK(count("src/bench/links.cpp", "#include \"chimera/train/trainer.h\"") == 1);
  CHECK(count("src/paper/page.cpp", "#include \"chimera/setup/config.h\"") == 1);
  CHECK(count("kernels/cuda/matmul/matmul.cpp", "#include <cublasLt.h>") == 0);
  CHECK(count("kernels/cuda/autotune/timing.cpp", "#include <cublasLt.h>") == 1);
  CHECK(count("src/main.cpp", "#include \"chimera/train/trainer.h\"") == 1);
  CHECK(count("src/fresh/new.cpp", "") == 1);
  CHECK(count("src/comm/local.cpp", "#include <mpi.h>") == 1);
  CHECK(count("src/comm/mpi/mpi_transport.cpp", "#include <mpi.h>") == 0);
  CHECK(count("kernels/cpu/vector/gelu.cpp", "#include <dnnl.hpp>") == 1);
  CHECK(count("kernels/cpu/matmul.cpp", "#include <oneapi/dnnl/dnnl.hpp>") == 0);
  CHECK(count("include/chimera/base/json.h", "#include <nlohmann/json_fwd.hpp>") == 0);
  CHECK(count("include/chimera/base/json.h", "#include <nlohmann/json.hpp>") == 1);
  CHECK(count("include/chimera/base/log.h", "#include <spdlog/spdlog.h>") == 1);
  CHECK(count("include/chimera/cli/app.h", "#include <CLI/CLI.hpp>") == 1);
  CHECK(count("include/chimera/base/log.h", "# ifdef CHIMERA_MPI") == 1);
  CHECK(count("src/nn/block.cpp", "#include \"../model/inner.h\"") == 1);
  CHECK(count("kernels/cuda/comm/no_nccl/no_nccl.cpp", "#include \"../transports.h\"") == 0);
  CHECK(count("kernels/cuda/comm/no_nccl/no_nccl.cpp", "#include \"../../../cpu/inner.h\"") == 1);
  CHECK(violations("include/chimera/base/log.h", "int x;\n").size() == 1);
}

TEST_CASE("includes: planted circles and private headers are found, and nothing else") {
  const auto includes = [](const std::string& target) { return "#include \"" + target + "\"\n"; };
  Sources sources = {{"include/chimera/nn/a.h", ""},
                     {"include/chimera/nn/b.h", includes("chimera/nn/a.h")},
                     {"src/nn/b.cpp", includes("chimera/nn/b.h") + includes("inner/c.h")},
                     {"src/nn/inner/c.h", includes("d.h")},
                     {"src/nn/inner/d.h", ""},
                     {"src/model/e.cpp", includes("chimera/nn/b.h")}};
  CHECK(arrows(sources).at("src/nn/b.cpp") ==
        std::set<std::string>{"include/chimera/nn/b.h", "src/nn/inner/c.h"});
  CHECK(circle(arrows(sources)).empty());
  CHECK(private_headers(sources, {}).empty());  // a.h by way of b.h
  sources["src/nn/inner/d.h"] = includes("inner/c.h");
  CHECK(circle(arrows(sources)) == "src/nn/inner/c.h -> src/nn/inner/d.h -> src/nn/inner/c.h");
  sources.erase("src/model/e.cpp");
  CHECK(private_headers(sources, {}) ==
        std::vector<std::string>{"include/chimera/nn/a.h", "include/chimera/nn/b.h"});
  CHECK(private_headers(sources, {{"tests/b.cpp", includes("chimera/nn/b.h")}}).empty());
}

namespace {

Sources sources_under(std::initializer_list<const char*> roots) {
  Sources out;
  for (const char* root : roots)
    for (const auto& entry : fs::recursive_directory_iterator(source_folder() / root)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh")
        out[fs::relative(entry.path(), source_folder()).generic_string()] = slurp(entry.path());
    }
  return out;
}

}  // namespace

TEST_CASE("includes: every source file keeps to the table of layers") {
  const Sources sources = sources_under({"include", "src", "kernels"});
  std::string found;
  for (const auto& [file, text] : sources)
    for (const std::string& line : violations(file, text)) found += line + "\n";
  INFO(found);
  CHECK(found.empty());
  CHECK(sources.size() > 150);  // the project had 200 when this was written: the walk sees it
}

TEST_CASE("includes: no circles, and every header under include/ is for others") {
  const Sources sources = sources_under({"include", "src", "kernels"});
  const auto files = arrows(sources);
  CHECK(files.size() > 150);
  CHECK(circle(files) == "");
  std::map<std::string, std::set<std::string>> layers;
  for (const auto& [file, targets] : files)
    for (const std::string& target : targets)
      if (layer_of(file) != layer_of(target)) layers[layer_of(file)].insert(layer_of(target));
  CHECK(circle(layers) == "");
  std::string found;
  for (const std::string& header : private_headers(sources, sources_under({"tests"})))
    found += header + "\n";
  INFO("move to src/: " << found);
  CHECK(found.empty());
}

}  // namespace chimera::test
