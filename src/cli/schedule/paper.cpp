#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "chimera/base/file.h"
#include "chimera/base/program_files.h"
#include "chimera/paper/page.h"
#include "schedule/options.h"

namespace chimera::cli {
namespace {

struct PaperOptions {
  std::string data = program_file("paper").string(), constants = "constants.json", output;
  bool derive = false;
};

void derive(const PaperOptions& o) {
  const paper::PaperData data = paper::read_paper(o.data, o.constants);
  for (const paper::PaperMachine& machine : data.machines) {
    const paper::Derived d = paper::derive_constants(data, machine);
    const paper::PaperMachine& m = d.machine;
    std::cout << concat(
        machine.name, ": achieved_fraction ", m.achieved_fraction, ", latency ", m.latency,
        ", bandwidth ", m.bandwidth,
        m.reduction_bandwidth > 0 ? concat(", reduction_bandwidth ", m.reduction_bandwidth) : "",
        "\n");
    for (std::size_t i = 0; i < machine.points.size(); ++i)
      std::cout << concat("  Fig. ", machine.points[i].figure, " ", machine.points[i].name, " on ",
                          machine.points[i].nodes, ": measured ",
                          data.row(machine.points[i]).measured, ", simulated ", d.simulated[i],
                          "\n");
  }
}

void write_page(const PaperOptions& o) {
  if (o.output.empty()) FailUsage("-o is not given; name the folder for paper.html and paper.md");
  constexpr const char* kTitle = "The Chimera paper (SC'21), reproduced";
  const std::vector<paper::PageSection> page = paper::paper_page(o.data);
  std::filesystem::create_directories(o.output);
  const std::filesystem::path folder(o.output);
  write_file_atomically(folder / "paper.html", paper::to_html(kTitle, page));
  write_file_atomically(folder / "paper.md", paper::to_markdown(kTitle, page));
  std::cout << "wrote " << (folder / "paper.html").string() << " and paper.md\n";
}

}  // namespace

void add_paper_command(CLI::App& schedule) {
  const auto options = std::make_shared<PaperOptions>();
  CLI::App* sub = schedule.add_subcommand(
      "paper", "The Chimera paper's tables and figures beside what is counted and simulated here");
  sub->add_option("-o,--output", options->output, "folder for paper.html and paper.md");
  sub->add_option(
      "--data", options->data,
      "folder with the paper's numbers and the constants; default: those that come with the "
      "program");
  sub->add_option("--constants", options->constants, "with --derive: which constants")
      ->capture_default_str();
  sub->add_flag("--derive", options->derive,
                "print the constants that follow from the named points, and write nothing");
  sub->footer("Example:\n  chimera schedule paper -o runs/paper");
  sub->callback([options] {
    if (options->derive)
      derive(*options);
    else
      write_page(*options);
  });
}

}  // namespace chimera::cli
