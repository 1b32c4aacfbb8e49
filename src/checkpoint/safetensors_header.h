#pragma once
// The JSON header of a safetensors file, parsed without building a tree: memory stays a small
// multiple of the header, whatever stands in it.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/types.h"

namespace chimera::checkpoint {

inline constexpr Index kMaxHeader = 100'000'000;

struct HeaderTensor {
  std::string name, type;
  std::vector<Index> shape;
  Index begin = 0, end = 0;  // relative to the first byte after the header
  Index at = 0;              // position in the file where its entry begins, for messages
};

struct Header {
  std::vector<HeaderTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// `text`: the header's bytes, which begin at byte 8 of the file that `where` names. Checks the form
// and that no name stands twice; sizes and offsets are the caller's to judge.
Header parse_header(std::string_view text, const std::string& where);

}  // namespace chimera::checkpoint
