// Sections as Markdown and as HTML.
#include <filesystem>

#include "chimera/paper/page.h"

namespace chimera::paper {

using namespace plan;
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string html_row(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) out += concat("<", tag, ">", escaped(cell), "</", tag, ">");
  return out + "</tr>\n";
}

std::string html_paragraphs(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", begin), text.size());
    out += "<p>" + escaped(text.substr(begin, end - begin)) + "</p>\n";
    begin = end + 2;
  }
  return out;
}

constexpr const char* kStyle =
    "body{font:15px/1.45 sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:.7em 0}td,th{border:1px solid #ccc;padding:2px "
    "9px;text-align:right}"
    "td:first-child,th:first-child{text-align:left}th{background:#f2f2f2}"
    "figure{margin:1em 0;overflow-x:auto}figcaption,.note{color:#555;font-size:90%}";

}  // namespace

std::string to_markdown(const std::string& title, const std::vector<PageSection>& sections) {
  std::string out = "# " + title + "\n";
  for (const PageSection& s : sections) {
    out += "\n## " + s.title + "\n\n" + s.text + "\n";
    for (const PageTable& t : s.tables) {
      out += "\n**" + t.title + "**\n\n" + markdown_row(t.header);
      out += markdown_row(std::vector<std::string>(t.header.size(), "---"));
      for (const auto& row : t.rows) out += markdown_row(row);
      if (!t.note.empty()) out += "\n" + t.note + "\n";
    }
    if (!s.pictures.empty())
      out += concat("\nPictures: ", s.pictures.size(), ", in the HTML page.\n");
  }
  return out;
}

std::string to_html(const std::string& title, const std::vector<PageSection>& sections) {
  std::string out = concat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", escaped(title),
      "</title><style>", kStyle, "</style></head><body>\n<h1>", escaped(title), "</h1>\n");
  for (const PageSection& s : sections) {
    out += "<h2>" + escaped(s.title) + "</h2>\n" + html_paragraphs(s.text);
    for (const PageTable& t : s.tables) {
      out += "<h3>" + escaped(t.title) + "</h3>\n<table>\n" + html_row(t.header, "th");
      for (const auto& row : t.rows) out += html_row(row, "td");
      out += "</table>\n";
      if (!t.note.empty()) out += "<p class=\"note\">" + escaped(t.note) + "</p>\n";
    }
    for (const PagePicture& p : s.pictures)
      out +=
          concat("<figure><figcaption>", escaped(p.title), "</figcaption>\n", p.svg, "</figure>\n");
  }
  return out + "</body></html>\n";
}

std::vector<PageSection> paper_page(const std::string& directory) {
  std::vector<PageSection> out{{"How to read this",
                                "Tables 2 and 3 and the pictures are exact: counted in, and drawn "
                                "from, schedules that were generated, lowered "
                                "and proved here. Throughput is simulated: discrete events over "
                                "the very programs that workers execute, with "
                                "the constants of the paper's machines that follow from at most "
                                "three of its measurements per machine. Errors "
                                "are simulated over measured. Disagreements stay as they are.\n\n"
                                "There are two sets of constants. The first was fixed, with its "
                                "points, before any other row was compared: "
                                "it predicts. The second was made after that, for one reason "
                                "(reductions are slower than messages); it "
                                "explains, and it does not replace the first.",
                                {},
                                {}}};
  PageSection exact{
      "Tables 2 and 3",
      "Counted in generated, lowered and verified schedules; the paper's formulas beside.",
      {},
      {}};
  for (const auto& [D, N] : {std::pair(8, 8), std::pair(8, 16), std::pair(32, 32)})
    exact.tables.push_back(paper_table_2(D, N));
  for (const int D : {8, 32}) exact.tables.push_back(paper_table_3(D, D));
  out.push_back(std::move(exact));
  for (PageSection& s : paper_pictures()) out.push_back(std::move(s));
  const auto compare = [&](const char* file, const std::string& prefix) {
    for (PageSection& s : paper_comparison(read_paper(directory, file))) {
      s.title = prefix + s.title;
      out.push_back(std::move(s));
    }
  };
  compare("constants.json", "First constants. ");
  if (std::filesystem::exists(std::filesystem::path(directory) / "constants-2.json"))
    compare("constants-2.json", "Second constants. ");
  return out;
}

}  // namespace chimera::paper
