// .tiktoken files, in and out.
#include <algorithm>
#include <charconv>

#include "byte_chars.h"
#include "files/base64.h"
#include "files/files.h"

namespace chimera::bpe {
namespace {

struct Line {
  std::string token;
  Index number;
};

Line parse_line(std::string_view content, Index number, const std::string& name,
                std::uint64_t& rank) {
  const auto space = content.find(' ');
  ENSURE(space != std::string_view::npos, name, ":", number, ": \"", shown(content),
         "\" has no space; a line is a base64 token, a space and its rank");
  const auto token = from_base64(content.substr(0, space));
  ENSURE(token && !token->empty(), name, ":", number, ": \"", shown(content.substr(0, space)),
         "\" is not the base64 of a token");
  ENSURE(token->size() <= kMaxRankedToken, name, ":", number, ": the token has ", token->size(),
         " bytes; at most ", kMaxRankedToken, " are accepted");
  const std::string_view digits = content.substr(space + 1);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, rank);
  ENSURE(error == std::errc() && stop == end, name, ":", number, ": the rank \"", shown(digits),
         "\" is no integer from 0 to 2^64 - 1");
  return {*token, number};
}

// The tokens by rank.
std::vector<Line> parse_lines(std::string_view text, const std::string& name) {
  std::vector<std::pair<std::uint64_t, Line>> lines;
  for (Index number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.ends_with('\r')) content.remove_suffix(1);
    if (content.empty()) continue;
    std::uint64_t rank = 0;
    Line line = parse_line(content, number, name, rank);
    lines.emplace_back(rank, std::move(line));
  }
  std::vector<Line> by_rank(lines.size());
  for (auto& [rank, line] : lines) {
    ENSURE(rank < by_rank.size(), name, ":", line.number, ": the rank ", rank, " of ",
           by_rank.size(), " tokens; ranks go from 0 to ", by_rank.size() - 1, " without gaps");
    ENSURE(by_rank[rank].token.empty(), name, ":", line.number, ": the rank ", rank,
           " stands in line ", by_rank[rank].number, " too");
    by_rank[rank] = std::move(line);
  }
  return by_rank;
}

// Every way to make a token of two tokens; the rank is the id of the result.
std::vector<Merge> all_splits(const TokenBytes& tokens, TokenId count, const WordTable& ids) {
  std::vector<Merge> out;
  for (TokenId id = 0; id < count; ++id) {
    const std::string_view token = tokens[id];
    const std::size_t first = out.size();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const TokenId left = ids.find(tokens, token.substr(0, cut));
      if (left == WordTable::kNone) continue;
      const TokenId right = ids.find(tokens, token.substr(cut));
      if (right != WordTable::kNone)
        out.push_back({left, right, id, static_cast<std::uint32_t>(id)});
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
              [](const Merge& a, const Merge& b) { return a.left < b.left; });
  }
  return out;
}

// In: tables with the rule and merges of all splits, indexed. Suppose that for every token, the
// merges of lower ranks alone turn its bytes into two tokens, a and b. Then no other split of it is
// ever merged in any word: the merges inside its bytes do not depend on what stands around them as
// long as none crosses their ends, so they pass through the same states, whose only one with two
// tokens is (a, b). So the list of these merges does what the ranks do.
std::optional<std::vector<Merge>> list_of_merges(const Tables& splits, TokenId count) {
  std::vector<Merge> out;
  LongWord memory;
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < count; ++id) {
    if (splits.tokens[id].size() == 1) continue;
    ids.clear();
    merge_word(splits, splits.tokens[id], memory, ids, static_cast<std::uint32_t>(id));
    if (ids.size() != 2) return std::nullopt;
    out.push_back({ids[0], ids[1], id, static_cast<std::uint32_t>(out.size())});
  }
  return out;
}

// Tables by ranks over the first `count` tokens, reduced to a list of merges where there is one.
void apply_ranks(Tables& tables, TokenId count, const WordTable& ids) {
  tables.rule = MergeRule::AllSplits;
  tables.merges = all_splits(tables.tokens, count, ids);
  tables.index_merges();
  if (auto merges = list_of_merges(tables, count)) {
    tables.rule = MergeRule::ListedPairs;
    tables.merges = std::move(*merges);
  }
}

bool same_pairs(const std::vector<Merge>& a, const std::vector<Merge>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Merge& x, const Merge& y) {
    return x.left == y.left && x.right == y.right && x.merged == y.merged;
  });
}

constexpr const char* kOtherFormat = "; save it as vocab.json + merges.txt";

}  // namespace

Tables parse_ranks(std::string_view text, const std::string& name) {
  const std::vector<Line> lines = parse_lines(text, name);
  Tables tables;
  WordTable ids;
  ids.reserve(lines.size());
  std::vector<bool> has_byte(256);
  for (const Line& line : lines) {
    tables.tokens.add(line.token);
    const TokenId other = ids.add(tables.tokens, tables.tokens.size() - 1);
    ENSURE(other == WordTable::kNone, name, ":", line.number, ": the same token stands in line ",
           lines[other == WordTable::kNone ? 0 : other].number, " too");
    if (line.token.size() == 1) has_byte[static_cast<unsigned char>(line.token[0])] = true;
  }
  for (int byte = 0; byte < 256; ++byte)
    ENSURE(has_byte[byte], name, " has no token for the byte ", byte,
           "; a byte-level vocabulary has all 256");
  const TokenId count = tables.tokens.size();
  ENSURE(ids.find(tables.tokens, kEndOfText) == WordTable::kNone, name, " lists ", kEndOfText,
         "; the format gives it the number of lines as its id, so take its line out");
  tables.tokens.add(kEndOfText);
  tables.specials = {count};
  apply_ranks(tables, count, ids);
  tables.finish();
  return tables;
}

std::string ranks_text(const Tables& tables) {
  const TokenId count = tables.tokens.size() - 1;
  ENSURE(tables.specials == std::vector<TokenId>{count} && tables.end_of_text == count,
         "a .tiktoken file cannot hold this tokenizer: it has ", tables.specials.size(),
         " special tokens, and the format has one, ", kEndOfText, ", as the last id ", count,
         kOtherFormat);
  if (tables.rule == MergeRule::ListedPairs) {
    Tables ranked;
    WordTable ids;
    ids.reserve(static_cast<std::size_t>(count));
    for (TokenId id = 0; id < count; ++id) {
      ENSURE(tables.tokens[id].size() <= kMaxRankedToken,
             "a .tiktoken file holds tokens of at most ", kMaxRankedToken, " bytes, token ", id,
             " has ", tables.tokens[id].size(), kOtherFormat);
      ranked.tokens.add(tables.tokens[id]);
      ids.add(ranked.tokens, id);
    }
    apply_ranks(ranked, count, ids);
    ENSURE(ranked.rule == MergeRule::ListedPairs && same_pairs(ranked.merges, tables.merges),
           "a .tiktoken file cannot hold this tokenizer: its ids as ranks would merge differently "
           "from its list of merges",
           kOtherFormat);
  }
  std::string out;
  for (TokenId id = 0; id < count; ++id)
    out += to_base64(tables.tokens[id]) + ' ' + std::to_string(id) + '\n';
  return out;
}

}  // namespace chimera::bpe
