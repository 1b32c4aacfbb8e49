// The paper's tables, and what is derived from its measurements.
#include "chimera/paper/page.h"

#include <filesystem>

#include "support/support.h"

namespace chimera::test {
namespace {

using namespace plan;
using namespace paper;

std::string data_folder() { return (source_folder() / "scripts/paper").string(); }

// Column `name` of the row that begins with `first`.
std::string cell(const PageTable& table, const std::string& first, const std::string& name) {
  for (const auto& row : table.rows)
    if (row.front() == first)
      for (std::size_t i = 0; i < table.header.size(); ++i)
        if (table.header[i] == name) return row[i];
  return "no " + first + ", " + name;
}

TEST_CASE("paper: the models have its numbers of parameters and its largest stages") {
  const PaperData data = read_paper(data_folder());
  CHECK(data.model("bert-48").parameters() == 669'790'012);  // Table 4
  CHECK(data.model("gpt-2").parameters() == 1'389'327'360);
  const auto first_stage = [&](const char* model, int D) {
    return paper_stage_parameters(data.model(model), D).front();
  };
  for (const auto& [D, floats] : {std::pair(2, 334'092'288), std::pair(4, 182'937'600),
                                  std::pair(8, 107'360'256), std::pair(16, 69'571'584)})
    CHECK(first_stage("bert-48", D) == floats);
  for (const auto& [D, floats] : {std::pair(8, 223'059'200), std::pair(16, 144'349'440),
                                  std::pair(32, 104'994'560), std::pair(64, 85'317'120)})
    CHECK(first_stage("gpt-2", D) == floats);
}

TEST_CASE("paper: Table 2 counted in schedules is the paper's, for every even D up to 32") {
  for (int D = 4; D <= 32; D += 2) {
    const PageTable t = paper_table_2(D, D);
    INFO("D = " << D);
    const std::string one_to_D = concat("[1, ", D, "]"), N = concat(D);
    // Bubbles: the share after " = " is the paper's formula, to the last of its digits.
    const auto share = [](const std::string& text) { return text.substr(text.rfind(" = ") + 3); };
    for (const char* flushed : {"GPipe", "DAPPLE"})
      for (const char* column : {"bubbles, B = F", "bubbles, B = 2F"})
        CHECK(share(cell(t, flushed, column)) == share(cell(t, flushed, "paper: bubbles")));
    const std::string chimera = cell(t, "Chimera", "paper: bubbles");
    const auto second = chimera.find(';');
    CHECK(share(cell(t, "Chimera", "bubbles, B = F")) == share(chimera.substr(0, second)));
    CHECK(share(cell(t, "Chimera", "bubbles, B = 2F")) == share(chimera.substr(second)));
    for (const char* stale : {"PipeDream", "PipeDream-2BW"})
      CHECK(cell(t, stale, "bubbles, B = 2F") == "0/1 = 0.00 %");
    const std::tuple<const char*, std::string, std::string> kept[] = {
        {"PipeDream", one_to_D, one_to_D},
        {"PipeDream-2BW", "2", one_to_D},
        {"GPipe", "1", N},
        {"GEMS", "2", "1"},
        {"DAPPLE", "1", one_to_D},
        {"Chimera", "2", concat("[", D / 2 + 1, ", ", D, "]")}};
    for (const auto& [scheme, weights, activations] : kept) {
      CHECK(cell(t, scheme, "weights (M_theta)") == weights);
      CHECK(cell(t, scheme, "activations (M_a)") == activations);
    }
  }
}

TEST_CASE("paper: Table 3 counted in schedules is the paper's") {
  const PageTable t = paper_table_3(8, 8);  // Fig. 8 is f = 2 of these
  REQUIRE(t.rows.size() == 3);
  CHECK(cell(t, "2", "idle slots") == "6");  // D/f - 2
  CHECK(cell(t, "4", "idle slots") == "2");
  CHECK(cell(t, "8", "idle slots") == "0");
  CHECK(cell(t, "4", "bubbles, B = F") == "1/9 = 11.11 %");   // (D-2f)/(2fN+D-2f) = 4/36
  CHECK(cell(t, "4", "bubbles, B = 2F") == "1/7 = 14.29 %");  // (D-2f)/(3fN/2+D-2f) = 4/28
  CHECK(cell(t, "4", "activations (M_a)") == "[7, 8]");       // [D-D/(2f)+1, D]
  CHECK(cell(t, "4", "weights (M_theta)") == "4");            // 2f
  for (const PageTable& table : {t, paper_table_3(32, 32)})
    for (const auto& row : table.rows) {
      CHECK(row[2] == row[3].substr(row[3].find(" = ") + 3));
      CHECK(row[8] == row[9].substr(row[9].find(" = ") + 3));
    }
}

// The file says where its constants come from; this is that claim. Digits beyond the sixth are the
// search's.
TEST_CASE("paper: the constants follow from the named points alone") {
  for (const char* file : {"constants.json", "constants-2.json"}) {
    const PaperData data = read_paper(data_folder(), file);
    for (const PaperMachine& machine : data.machines) {
      REQUIRE(machine.points.size() <= 3);
      REQUIRE(machine.derive.size() <= machine.points.size());
      PaperMachine start = machine;
      start.achieved_fraction *= 0.8;
      const Derived d = derive_constants(data, start);
      INFO(file << ": " << machine.name);
      CHECK(d.machine.achieved_fraction == Approx(machine.achieved_fraction).epsilon(2e-3));
      CHECK(d.machine.bandwidth == Approx(machine.bandwidth).epsilon(5e-3));
      CHECK(d.machine.latency == Approx(machine.latency).epsilon(5e-3));
      CHECK(d.machine.reduction_bandwidth == Approx(machine.reduction_bandwidth).epsilon(5e-3));
      for (std::size_t i = 0; i < machine.points.size(); ++i)
        CHECK(d.simulated[i] == Approx(data.row(machine.points[i]).measured).epsilon(1e-3));
    }
  }
}

TEST_CASE("paper: with the first constants the planner picks what was measured to be best") {
  const std::string page = to_markdown("t", paper_comparison(read_paper(data_folder())));
  // Fig. 13: measurement, the paper's Eq. 1 (wrong for GPT-2), our Eq. 1, simulator, planner.
  CHECK_THAT(
      page, Catch::Contains("| bert-48 | W=8 D=4 B=8 N=8 | W=8 D=4 B=8 N=8 | W=8 D=4 B=8 N=8 | W=8 "
                            "D=4 B=8 N=8 | chimera W=8 D=4 B=8 N=8 |"));
  CHECK_THAT(page, Catch::Contains(
                       "| gpt-2 | W=64 D=8 B=1 N=8, R | W=16 D=32 B=1 N=32 | W=64 D=8 B=1 N=8, R | "
                       "W=64 D=8 B=1 N=8, R | chimera W=64 D=8 B=1 N=8, recompute full |"));
}

TEST_CASE("paper: a damaged file is refused by key") {
  TemporaryFolder folder;
  for (const char* name : {"numbers.json", "constants.json"})
    std::filesystem::copy_file(source_folder() / "scripts/paper" / name, folder / name);
  const auto refused = [&](const char* name, const std::string& from, const std::string& to,
                           const char* message) {
    const std::string good = slurp(folder / name);
    std::string bad = good;
    REQUIRE(bad.find(from) != std::string::npos);
    spit(folder / name, bad.replace(bad.find(from), from.size(), to));
    CHECK_THROWS_WITH(read_paper(folder.path().string()), Catch::Contains(message));
    spit(folder / name, good);
  };
  refused("constants.json", "\"latency\": 0.0069", "\"latency\": -0.0069",
          "machines[0].constants.latency");
  refused("constants.json", "\"piz-daint\"", "\"elsewhere\"", "no machine piz-daint");
  refused("numbers.json", "\"nodes\": [32]", "\"nodes\": [31]", "series[0].nodes");
  refused("numbers.json", "\"measured\": [129]", "\"measured\": []", "series[0].measured");
  refused("numbers.json", "\"layers\": 48", "\"layer\": 48", "models[0].layers is missing");
}

TEST_CASE("paper: text of the page is escaped in HTML and a picture is not") {
  const std::vector<PageSection> page = {
      {"A < B", "one & two\n\nthree", {{"T", {"a"}, {{"<b>"}}, ""}}, {{"p", "<svg/>"}}}};
  const std::string html = to_html("x", page);
  CHECK_THAT(html, Catch::Contains("<h2>A &lt; B</h2>"));
  CHECK_THAT(html, Catch::Contains("<p>one &amp; two</p>\n<p>three</p>"));
  CHECK_THAT(html, Catch::Contains("<td>&lt;b&gt;</td>"));
  CHECK_THAT(html, Catch::Contains("<svg/></figure>"));
  CHECK_THAT(to_markdown("x", page), Catch::Contains("| a |\n| --- |\n| <b> |\n"));
}

}  // namespace
}  // namespace chimera::test
