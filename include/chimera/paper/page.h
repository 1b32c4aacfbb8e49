#pragma once
// The page on which the paper's tables and figures stand beside ours: sections as data, written as
// Markdown (without pictures) and as one self-contained HTML file.
#include <string>
#include <vector>

#include "chimera/paper/paper.h"

namespace chimera::paper {

struct PageTable {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string note;
};
struct PagePicture {
  std::string title, svg;
};
struct PageSection {
  std::string title, text;  // plain text; an empty line begins a paragraph
  std::vector<PageTable> tables;
  std::vector<PagePicture> pictures;
};

// Tables 2 and 3 for some D, N: counted from generated, lowered and verified schedules, with the
// paper's formulas beside them.
PageTable paper_table_2(int depth, int micro_batches);
PageTable paper_table_3(int depth, int micro_batches);

// Figures 2 to 8 from the generators.
std::vector<PageSection> paper_pictures();

// Figures 1, 9 and 12 to 19 under one set of constants; a constant's own points count in no error.
std::vector<PageSection> paper_comparison(const PaperData& data);

// Everything: the exact tables, the pictures, and the comparison under the constants of
// DIR/constants.json, then of DIR/constants-2.json where there is one.
std::vector<PageSection> paper_page(const std::string& directory);

std::string to_markdown(const std::string& title, const std::vector<PageSection>& sections);
std::string to_html(const std::string& title, const std::vector<PageSection>& sections);

}  // namespace chimera::paper
