#pragma once
// The two file formats, as text in memory. `name` is what messages call the file.
#include <string>
#include <string_view>

#include "tables.h"

namespace chimera::bpe {

inline constexpr Index kMaxFileBytes = Index{64} << 20;
// Splits of a token are counted and hashed one by one; the longest of known vocabularies has 128.
inline constexpr std::size_t kMaxRankedToken = 1024;

// vocab.json ({"token": id, …}) and merges.txt ("#version" line, then "left right" per line).
Tables parse_vocabulary(std::string_view vocab, const std::string& vocab_name,
                        std::string_view merges, const std::string& merges_name);
std::string vocab_json(const Tables& tables);
std::string merges_txt(const Tables& tables);  // throws unless the rule is ListedPairs

// Lines of base64 token, space, rank. Two tokens merge when their bytes together are a token, at
// its rank; where a list of merges does the same, the tables hold that list (rule ListedPairs).
Tables parse_ranks(std::string_view text, const std::string& name);
std::string ranks_text(const Tables& tables);  // throws where ranks cannot say the same

}  // namespace chimera::bpe
