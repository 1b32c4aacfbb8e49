// vocab.json and merges.txt, in and out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "byte_chars.h"
#include "files/files.h"

namespace chimera::bpe {
namespace {

// Reads one flat object of non-negative integers, event by event: anything else is refused where it
// begins, before memory is taken for it, and named by its token.
class VocabReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit VocabReader(const std::string& name) : name_(name) {}

  std::vector<std::pair<std::string, std::uint64_t>> entries;

  bool null() override { return refuse_value("null"); }
  bool boolean(bool) override { return refuse_value("a boolean"); }
  bool number_integer(std::int64_t value) override {
    return refuse_value("the negative number " + std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!open_) return refuse_value("a number");
    entries.back().second = value;
    return true;
  }
  bool number_float(double, const std::string& text) override {
    return refuse_value("the number " + shown(text));
  }
  bool string(std::string&) override { return refuse_value("a string"); }
  bool binary(nlohmann::json::binary_t&) override { return refuse_value("binary data"); }
  bool start_object(std::size_t) override {
    if (open_) return refuse_value("an object");
    return open_ = true;
  }
  bool key(std::string& token) override {
    entries.emplace_back(token, 0);
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return refuse_value("an array"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    const std::string what = e.what();
    const auto bracket = what.find("] ");
    Fail(name_,
         " is not valid JSON: ", bracket == std::string::npos ? what : what.substr(bracket + 2));
  }

 private:
  bool refuse_value(const std::string& what) const {
    if (!open_) Fail(name_, " holds ", what, "; an object of \"token\": id is needed");
    Fail(name_, ": the id of \"", shown(entries.back().first), "\" is ", what,
         "; ids are integers from 0");
  }

  const std::string& name_;
  bool open_ = false;
};

// The keys by id.
std::vector<std::string> keys_by_id(std::string_view text, const std::string& name) {
  VocabReader reader(name);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  const std::size_t count = reader.entries.size();
  ENSURE(count <= static_cast<std::size_t>(std::numeric_limits<TokenId>::max()), name, " has ",
         count, " tokens; ids must fit in 31 bits");
  std::vector<std::string> keys(count);
  std::vector<bool> seen(count);
  for (auto& [key, id] : reader.entries) {
    ENSURE(id < count, name, ": \"", shown(key), "\" has the id ", id, ", but there are only ",
           count, " tokens; ids go from 0 to ", count - 1, " without holes");
    ENSURE(!seen[id], name, ": \"", shown(key), "\" and \"", shown(keys[id]),
           "\" have the same id ", id);
    seen[id] = true;
    keys[id] = std::move(key);
  }
  return keys;
}

// A vocabulary while its tokens are still strings of stand-ins.
struct Keys {
  TokenBytes text;
  WordTable ids;

  Keys(const std::vector<std::string>& keys, const std::string& name) {
    ids.reserve(keys.size());
    for (const std::string& key : keys) {
      text.add(key);
      const TokenId id = text.size() - 1;
      const TokenId other = ids.add(text, id);
      ENSURE(other == WordTable::kNone, name, ": \"", shown(key), "\" stands twice, with the ids ",
             other, " and ", id);
    }
  }
};

struct MergeLines {
  const Keys& keys;
  const std::string& name;
  std::vector<Merge> merges;

  TokenId id_of(std::string_view token, Index line, const char* what) const {
    const TokenId id = keys.ids.find(keys.text, token);
    ENSURE(id != WordTable::kNone, name, ":", line, ": ", what, " \"", shown(token),
           "\" is not in vocab.json; the two files must belong together");
    return id;
  }

  void add(std::string_view content, Index line) {
    const auto space = content.find(' ');
    ENSURE(space != std::string_view::npos && space > 0 && space + 1 < content.size() &&
               content.find(' ', space + 1) == std::string_view::npos,
           name, ":", line, ": \"", shown(content),
           "\" is not a merge; a line is two tokens with one space between");
    const std::string_view left = content.substr(0, space), right = content.substr(space + 1);
    Merge m{id_of(left, line, "the token"), id_of(right, line, "the token"), 0,
            narrow<std::uint32_t>(merges.size())};
    m.merged = id_of(std::string(left) + std::string(right), line, "the merged token");
    merges.push_back(m);
  }
};

std::vector<Merge> parse_merges(std::string_view text, const Keys& keys, const std::string& name) {
  MergeLines lines{keys, name, {}};
  Index line = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.ends_with('\r')) content.remove_suffix(1);
    ++line;
    if (line == 1 && content.starts_with("#version")) continue;
    if (content.empty() && text.empty()) break;
    lines.add(content, line);
  }
  std::vector<std::uint64_t> pairs;
  for (const Merge& m : lines.merges) pairs.push_back(pair_key(m.left, m.right));
  std::sort(pairs.begin(), pairs.end());
  const auto twice = std::adjacent_find(pairs.begin(), pairs.end());
  if (twice != pairs.end())
    Fail(name, ": the merge \"", shown(keys.text[static_cast<TokenId>(*twice >> 32)]), " ",
         shown(keys.text[static_cast<TokenId>(*twice & 0xFFFFFFFFu)]), "\" stands twice");
  return std::move(lines.merges);
}

// Bytes of the ordinary tokens, and the special ones: neither a byte nor made by a merge.
void add_tokens(Tables& tables, const Keys& keys, const std::string& vocab_name,
                const std::string& merges_name) {
  std::vector<bool> ordinary(static_cast<std::size_t>(keys.text.size()));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one = to_byte_chars(std::string(1, static_cast<char>(byte)));
    const TokenId id = keys.ids.find(keys.text, one);
    ENSURE(id != WordTable::kNone, vocab_name, " has no token for the byte ", byte, " (\"", one,
           "\"); a byte-level vocabulary has all 256");
    ordinary[id] = true;
  }
  for (const Merge& m : tables.merges) ordinary[m.merged] = true;
  for (const Merge& m : tables.merges)
    for (const TokenId part : {m.left, m.right})
      ENSURE(ordinary[part], merges_name, ": \"", shown(keys.text[part]),
             "\" is merged, but is neither a byte nor made by a merge");
  for (TokenId id = 0; id < keys.text.size(); ++id) {
    const std::string_view key = keys.text[id];
    if (ordinary[id]) {
      const auto bytes = from_byte_chars(key);
      ENSURE(bytes, vocab_name, ": the token \"", key,
             "\" has a character that stands for no byte");
      tables.tokens.add(*bytes);
      continue;
    }
    ENSURE(has_special_form(key), vocab_name, ": \"", shown(key), "\" (id ", id,
           ") is neither a byte, ", "nor made by a line of ", merges_name,
           " (is that file cut short?), nor a special token of the form <...> or [...]");
    tables.tokens.add(key);
    tables.specials.push_back(id);
  }
}

// As serde_json writes a string: only quotes, backslashes and control characters are escaped, and
// tokens hold no control characters.
void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

}  // namespace

Tables parse_vocabulary(std::string_view vocab, const std::string& vocab_name,
                        std::string_view merges, const std::string& merges_name) {
  const Keys keys(keys_by_id(vocab, vocab_name), vocab_name);
  ENSURE(keys.text.size() > 0, vocab_name, " holds no tokens");
  Tables tables;
  tables.merges = parse_merges(merges, keys, merges_name);
  add_tokens(tables, keys, vocab_name, merges_name);
  tables.finish();
  return tables;
}

std::string vocab_json(const Tables& tables) {
  std::string out = "{";
  for (TokenId id = 0; id < tables.tokens.size(); ++id) {
    if (id > 0) out += ',';
    const std::string_view token = tables.tokens[id];
    append_json_string(out, tables.is_special(id) ? std::string(token) : to_byte_chars(token));
    out += ':' + std::to_string(id);
  }
  return out + "}";
}

std::string merges_txt(const Tables& tables) {
  ENSURE(tables.rule == MergeRule::ListedPairs,
         "this tokenizer's ranks follow from no list of merges, so it cannot be written as "
         "vocab.json + merges.txt; keep its .tiktoken file");
  std::string out = "#version: 0.2\n";
  for (const Merge& m : tables.merges)
    out +=
        to_byte_chars(tables.tokens[m.left]) + ' ' + to_byte_chars(tables.tokens[m.right]) + '\n';
  return out;
}

}  // namespace chimera::bpe
