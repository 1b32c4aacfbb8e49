#pragma once
// What the sections of the paper's page share.
#include <string>

#include "chimera/base/format.h"
#include "chimera/model/config.h"
#include "chimera/paper/page.h"

namespace chimera::paper {

std::string number(double value, const char* format = "%.1f");
std::string error_text(double ours, double theirs);  // "+3.1 %"
std::string size_text(const PaperRow& row);          // "32 workers, batch 512"

// All rows, simulated once under one set of constants.
struct Comparison {
  const PaperData& data;
  std::vector<double> simulated;
  explicit Comparison(const PaperData& d);
  double of(const std::string& figure, const std::string& name, Index nodes) const;
};

// This program's model of the same shape (no parameters of a pooler or of token types).
model::ModelConfig shape_of(const PaperModel& model);

PageSection figure_1(const Comparison& comparison);
PageSection figure_9(const PaperData& data);
PageSection figure_13(const Comparison& comparison);

}  // namespace chimera::paper
