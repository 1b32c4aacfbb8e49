#pragma once
// The table of all configuration keys: what reads, writes, explains and checks a configuration
// uses.
#include <string>
#include <variant>
#include <vector>

#include "chimera/setup/config.h"

namespace chimera {

// One key: where its value goes, what is accepted, what it means.
struct Field {
  std::string path;  // "parallel.depth"
  std::variant<Index*, int*, double*, bool*, std::string*, std::vector<std::string>*,
               std::vector<Index>*, std::vector<DataSource>*>
      target;
  double least = 0, most = 0;        // numbers
  std::vector<std::string> choices;  // text; empty: any
  std::string meaning;
  std::string required{};       // what to do where it is not set; empty: its default is of use
  std::string empty{};          // JSON that stands for an empty text or list: null, "auto"
  bool or_number = false;       // text: a number is taken as well
  bool warn_on_resume = false;  // another value on resume makes it another training: said then
  std::string pointer() const;  // "/parallel/depth", its place in the JSON
};
std::vector<Field> config_fields(Config& config);
// For the help of options that set a key: "D: pipeline stages".
std::string meaning_of(const std::vector<Field>& fields, const std::string& path);

}  // namespace chimera
