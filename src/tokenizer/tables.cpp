#include "tables.h"

#include <algorithm>

namespace chimera::bpe {
namespace {

// Numbers are hashed as little-endian bytes, so that a fingerprint is the same on every machine.
void add_number(Checksum& sum, std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
  sum.add(bytes);
}

std::string fingerprint_of(const Tables& tables) {
  Checksum sum;
  add_number(sum, static_cast<std::uint64_t>(tables.tokens.size()));
  for (TokenId id = 0; id < tables.tokens.size(); ++id) {
    add_number(sum, tables.tokens[id].size() * 2 + (tables.is_special(id) ? 1 : 0));
    sum.add(std::as_bytes(std::span(tables.tokens[id])));
  }
  const bool all_splits = tables.rule == MergeRule::AllSplits;
  add_number(sum, tables.merges.size() * 2 + (all_splits ? 1 : 0));
  for (const Merge& m : tables.merges) {
    add_number(sum, pair_key(m.left, m.right));
    add_number(sum, static_cast<std::uint64_t>(m.merged));
  }
  return sum.hex();
}

}  // namespace

void PairTable::build(const std::vector<Merge>& merges) {
  table_.reserve(merges.size());
  const auto never = [](const Entry&) { return false; };  // pairs are listed once
  for (const Merge& m : merges) {
    const std::uint64_t key = pair_key(m.left, m.right);
    table_.find_or_add(Entry::hash(key), never,
                       {key, std::uint64_t{m.rank} << 32 | static_cast<std::uint32_t>(m.merged)});
  }
}

TokenId WordTable::add(const TokenBytes& tokens, TokenId id) {
  const std::uint32_t tag = tag_of(hash_bytes(tokens[id]));
  const auto same = [&](const Entry& e) { return e.tag == tag && tokens[e.id] == tokens[id]; };
  const Entry& there = table_.find_or_add(tag, same, {tag, id});
  return there.id == id ? kNone : there.id;
}

bool Tables::is_special(TokenId id) const {
  return std::binary_search(specials.begin(), specials.end(), id);
}

void Tables::index_merges() {
  for (TokenId id = 0; id < tokens.size(); ++id)
    if (tokens[id].size() == 1 && !is_special(id))
      byte_ids[static_cast<unsigned char>(tokens[id][0])] = id;
  pairs.build(merges);
}

void Tables::finish() {
  index_merges();
  words.reserve(static_cast<std::size_t>(tokens.size()));
  LongWord memory;
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokens.size(); ++id) {
    if (is_special(id)) continue;
    ids.clear();
    // By ranks, a whole word that is a token is that token; by a list of merges only if they make
    // it.
    if (rule == MergeRule::ListedPairs) merge_word(*this, tokens[id], memory, ids);
    if (rule == MergeRule::AllSplits || (ids.size() == 1 && ids[0] == id)) words.add(tokens, id);
  }
  special_starts.assign(256, false);
  for (const TokenId id : specials) {
    special_starts[static_cast<unsigned char>(tokens[id][0])] = true;
    if (tokens[id] == kEndOfText) end_of_text = id;
  }
  fingerprint = fingerprint_of(*this);
}

}  // namespace chimera::bpe
