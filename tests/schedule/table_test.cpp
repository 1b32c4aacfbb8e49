// The table of schedules: its rows say what their plans do, and nothing else knows their names.
#include <algorithm>
#include <filesystem>
#include <set>

#include "chimera/schedule/build.h"
#include "chimera/schedule/compare.h"
#include "support/support.h"

namespace chimera::schedule {
namespace {

namespace fs = std::filesystem;

// The string literals of C++ text, without comments.
std::vector<std::string> literals(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '\'') {  // '"', '\''; a digit separator's next character is skipped
      i += text.compare(i + 1, 1, "\\") == 0 ? 3 : text.compare(i + 2, 1, "'") == 0 ? 2 : 0;
    } else if (text[i] == '"') {
      std::string& literal = out.emplace_back();
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') literal += text[i++];
        literal += text[i];
      }
    }
  }
  return out;
}

// The names in `literal` that stand there as words. Of the one that is the program's name as well,
// only a literal that is nothing else, or calls it a schedule (and is no example of a command).
std::set<std::string> names_in(const std::string& literal) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  std::set<std::string> out;
  for (const ScheduleInfo& info : known_schedules()) {
    const std::string name = info.name;
    for (std::size_t at = literal.find(name); at != literal.npos; at = literal.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      const bool whole = (at == 0 || !is_word(literal[at - 1])) &&
                         (end == literal.size() || !is_word(literal[end]));
      const std::string before = literal.substr(0, at);
      const bool program = name == "chimera" && literal != name &&
                           (!before.ends_with("schedule ") || before.ends_with("--schedule "));
      if (whole && !program) out.insert(name);
    }
  }
  return out;
}

Request request_for(const ScheduleInfo& info) {
  Request r{.schedule = info.name, .depth = 4, .micro_batches = 8};
  r.micro_batches = micro_batches_of_step(r);
  return r;
}

bool any(const ComputePlan& plan, const auto& holds) {
  return std::ranges::any_of(plan.workers, [&](const std::vector<Instr>& list) {
    return std::ranges::any_of(list, holds);
  });
}

TEST_CASE("the search for schedules' names finds planted ones and nothing else") {
  CHECK(literals("f(\"a b\", '\"', 1'000, \"\\\"c\"); // \"d\"\n\"e\"") ==
        std::vector<std::string>{"a b", "\\\"c", "e"});
  CHECK(names_in("use 1, or schedule gems") == std::set<std::string>{"gems"});
  CHECK(names_in("pipedream-2bw") == std::set<std::string>{"pipedream-2bw"});
  CHECK(names_in("chimera") == std::set<std::string>{"chimera"});
  CHECK(names_in("or schedule chimera") == std::set<std::string>{"chimera"});
  CHECK(names_in("made by chimera train; stratagems").empty());
}

// The name of a schedule outside its file is a place that a new schedule does not reach.
TEST_CASE("no source names a schedule but the schedule's own file") {
  // The names of the log and of the program; a word that means something else; what
  // the paper compares, which is what src/paper reproduces.
  const std::set<std::string> free = {"src/base/log.cpp", "src/cli/app.cpp",
                                      "src/cli/bench/kernels.cpp"};
  std::string found;
  std::size_t own = 0;
  for (const char* root : {"include", "src", "kernels"})
    for (const auto& entry : fs::recursive_directory_iterator(test::source_folder() / root)) {
      const std::string file = fs::relative(entry.path(), test::source_folder()).generic_string(),
                        kind = entry.path().extension().string();
      if (kind != ".h" && kind != ".cpp" && kind != ".cu" && kind != ".cuh") continue;
      if (free.contains(file) || file.starts_with("src/paper/")) continue;
      std::set<std::string> names;
      for (const std::string& literal : literals(test::slurp(entry.path())))
        names.merge(names_in(literal));
      if (file.starts_with("src/schedule/schedules/")) {
        INFO(file);
        CHECK(!names.empty());  // its own, and those that its rule compares it with
        ++own;
        continue;
      }
      for (const std::string& name : names) found += file + ": " + name + "\n";
    }
  INFO(found);
  CHECK(found.empty());
  CHECK(own == known_schedules().size());
}

TEST_CASE("every row's traits are what its plan does") {
  for (const ScheduleInfo& info : known_schedules()) {
    INFO(info.name);
    const ComputePlan plan = generate(request_for(info));
    const Traits& t = info.traits;
    CHECK(any(plan, [](const Instr& in) { return in.version > 0; }) == t.stale);
    CHECK((plan.placement.size() > 1) == t.bidirectional);
    CHECK(any(plan, [](const Instr& in) { return in.op == Op::BackwardWeight; }) == t.split);
    CHECK((plan.period > 0) == t.stale);
  }
  const auto count = [](bool Traits::*trait) {
    return std::ranges::count_if(known_schedules(),
                                 [&](const ScheduleInfo& info) { return info.traits.*trait; });
  };
  CHECK(count(&Traits::serial) == 1);
  CHECK(count(&Traits::featured) == 1);
  CHECK(refusal(serial_request()).empty());
}

// A key is refused where it is not taken, and its hint names schedules that take it.
TEST_CASE("every row's keys are those that its traits name") {
  const auto taken = [](const ScheduleInfo& info, const auto& change) {
    Request r = request_for(info);
    change(r);
    return refusal(r).empty();
  };
  for (const ScheduleInfo& info : known_schedules()) {
    INFO(info.name);
    const Traits& t = info.traits;
    CHECK(taken(info, [](Request& r) { r.pipeline_pairs = 2; }) == t.takes_pipeline_pairs);
    CHECK(taken(info, [](Request& r) { r.scaling = "doubling"; }) == t.takes_scaling);
    CHECK(taken(info, [](Request& r) { r.split_backward = true; }) ==
          (t.takes_split_backward || t.split));
    CHECK(taken(info, [](Request& r) { r.split_backward = r.overlap_steps = true; }) ==
          t.takes_overlap_steps);
    CHECK(taken(info, [](Request& r) { r.virtual_stages = 2; }) == t.takes_virtual_stages);
    CHECK(taken(info, [](Request& r) { r.zero_stage = 1; }) == !t.stale);
  }
  CHECK(refusal({.schedule = "1f1b", .split_backward = true})
            .text.ends_with(
                schedules_with([](const Traits& t) { return t.takes_split_backward || t.split; })));
}

}  // namespace
}  // namespace chimera::schedule
