#include "field_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace chimera {
namespace {

// Letters to change to turn one word into the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(
          row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row[b.size()];
}

// Puts one JSON value into one field.
struct Setter {
  const Field& field;
  const Json& value;
  std::vector<ConfigProblem>& problems;

  void wrong(const std::string& expected) const {
    problems.push_back(
        {{field.path}, concat(field.path, " is ", value.dump(), "; it must be ", expected)});
  }
  bool in_range(double v) const {
    if (std::isfinite(v) && v >= field.least && v <= field.most) return true;
    wrong(concat("between ", field.least, " and ", field.most));
    return false;
  }
  void operator()(Index* target) const {
    if (!value.is_number_integer()) return wrong("a whole number");
    if (in_range(value.get<double>())) *target = value.get<Index>();
  }
  void operator()(int* target) const {
    Index number = *target;
    (*this)(&number);
    *target = narrow<int>(number);
  }
  void operator()(double* target) const {
    if (!value.is_number()) return wrong("a number");
    if (in_range(value.get<double>())) *target = value.get<double>();
  }
  void operator()(bool* target) const {
    if (!value.is_boolean()) return wrong("true or false");
    *target = value.get<bool>();
  }
  void operator()(std::string* target) const {
    const bool optional = field.choices.empty() || field.empty == "null";
    if (value.is_null() && optional) return void(target->clear());
    // A number where a word may stand as well; --set gives it without quotes.
    if (value.is_number() && field.or_number) return void(*target = value.dump());
    if (!value.is_string()) return wrong("text in double quotes");
    const auto text = value.get<std::string>();
    if (!(text.empty() && optional) && !field.choices.empty() &&
        std::ranges::count(field.choices, text) == 0)
      return wrong(concat("one of ", joined(field.choices),
                          " (nearest: ", nearest(text, field.choices), ")"));
    *target = text;
  }
  void operator()(std::vector<std::string>* target) const {
    std::vector<std::string> out;
    if (value.is_string())
      out.push_back(value.get<std::string>());
    else if (!value.is_array())
      return wrong("a list of paths");
    else
      for (const Json& item : value) {
        if (!item.is_string()) return wrong("a list of paths");
        out.push_back(item.get<std::string>());
      }
    *target = out;
  }
  void operator()(std::vector<Index>* target) const {
    if (!field.empty.empty() && value == Json::parse(field.empty)) return target->clear();
    if (!value.is_array())
      return wrong("a list of whole numbers" + (field.empty.empty() ? "" : ", or " + field.empty));
    std::vector<Index> out;
    for (const Json& item : value) {
      if (!item.is_number_integer() || item.get<double>() < 0 || item.get<double>() > field.most)
        return wrong("a list of whole numbers from 0 on");
      out.push_back(item.get<Index>());
    }
    *target = out;
  }
  void operator()(std::vector<DataSource>* target) const {
    const char* expected = "a list of paths, or of {\"files\": [...], \"weight\": number above 0}";
    std::vector<DataSource> out;
    const bool objects = value.is_array() && !value.empty() && value.front().is_object();
    if (!objects) {
      std::vector<std::string> files;
      const std::size_t before = problems.size();
      (*this)(&files);
      if (problems.size() == before && !files.empty()) out.push_back({files, 1});
      *target = out;
      return;
    }
    for (const Json& item : value) {
      const bool shaped = item.is_object() && item.contains("files") && item.contains("weight") &&
                          item.size() == 2 && item["files"].is_array() &&
                          item["weight"].is_number() && item["weight"].get<double>() > 0;
      if (!shaped) return wrong(expected);
      DataSource source{{}, item["weight"].get<double>()};
      for (const Json& file : item["files"]) {
        if (!file.is_string()) return wrong(expected);
        source.files.push_back(file.get<std::string>());
      }
      out.push_back(source);
    }
    *target = out;
  }
};

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  const auto best =
      std::ranges::min_element(known, {}, [&](const std::string& k) { return distance(word, k); });
  return best == known.end() ? "" : *best;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

void read_field(const Field& field, const Json& value, std::vector<ConfigProblem>& problems) {
  std::visit(Setter{field, value, problems}, field.target);
}

}  // namespace chimera
