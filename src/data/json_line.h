#pragma once
// One line of a .jsonl file. An own scanner and not nlohmann's: it keeps bytes that are not UTF-8
// as they are, builds no tree, and runs at some hundred MB/s beside an encoder of some ten.
#include <string>
#include <string_view>

#include "chimera/base/types.h"

namespace chimera::data {

// Sets `text` to the string under `key` in the JSON object of this line. Returns the number of
// unpaired surrogate escapes (\ud800 … \udfff), each written as U+FFFD. The whole line is checked
// against RFC 8259 (depth at most 64). Throws beginning with `where`: no object, bad syntax (with
// the column), the key missing, twice, or no string.
Index text_of_json_line(std::string_view line, const std::string& key, const std::string& where,
                        std::string& text);

}  // namespace chimera::data
