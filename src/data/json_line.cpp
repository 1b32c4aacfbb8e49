#include "json_line.h"

#include <cstdint>

namespace chimera::data {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

void append_utf8(std::string& out, std::uint32_t c) {
  const auto byte = [&](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | c >> 6);
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3f));
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class LineScanner {
 public:
  LineScanner(std::string_view line, const std::string& where) : line_(line), where_(where) {}

  Index text(const std::string& key, std::string& out) {
    skip_space();
    if (peek() != '{') fail("expected one JSON object per line");
    bool found = false;
    ++at_;
    for (bool first = true; next_member(first); first = false) {
      string(name_);
      expect(':');
      if (name_ != key) {
        value(1);
        continue;
      }
      if (found) fail("the key \"", key, "\" stands twice");
      found = true;
      if (peek() != '"') fail("the value of \"", key, "\" is no string");
      unpaired_ = 0;
      string(out);
      result_ = unpaired_;
    }
    skip_space();
    if (at_ < line_.size()) fail("text after the JSON object");
    if (!found) fail("no key \"", key, "\"; name the key of the text with --text-key");
    return result_;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    Fail(where_, ", column ", at_ + 1, ": ", parts...);
  }

  char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }

  void skip_space() {
    while (at_ < line_.size() &&
           (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r' || line_[at_] == '\n'))
      ++at_;
  }

  void expect(char c) {
    skip_space();
    if (peek() != c) fail("expected '", c, "'");
    ++at_;
    skip_space();
  }

  // Stands at the next member's name, or past the closing brace and false.
  bool next_member(bool first) {
    skip_space();
    if (peek() == '}') {
      ++at_;
      return false;
    }
    if (!first) expect(',');
    if (peek() != '"') fail("expected a key in double quotes");
    return true;
  }

  void string(std::string& out) {
    out.clear();
    ++at_;
    while (true) {
      const std::size_t from = at_;
      while (at_ < line_.size() && line_[at_] != '"' && line_[at_] != '\\' &&
             static_cast<unsigned char>(line_[at_]) >= 0x20)
        ++at_;
      out.append(line_, from, at_ - from);
      if (at_ == line_.size()) fail("the string does not end");
      if (line_[at_] == '"') break;
      if (line_[at_] != '\\') fail("a control character in a string");
      ++at_;
      escape(out);
    }
    ++at_;
  }

  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (c == 'u') return unicode_escape(out);
    const std::size_t which = kNames.find(c);
    if (c == '\0' || which == std::string_view::npos) fail("an unknown escape");
    out.push_back(kValues[which]);
    ++at_;
  }

  void unicode_escape(std::string& out) {
    const std::uint32_t unit = hex4();
    const bool high = unit >= 0xd800 && unit < 0xdc00;
    if (high && line_.substr(at_, 2) == "\\u") {
      const std::size_t second = at_++;
      const std::uint32_t low = hex4();
      if (low >= 0xdc00 && low < 0xe000)
        return append_utf8(out, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
      at_ = second;
    }
    if (unit >= 0xd800 && unit < 0xe000) {
      ++unpaired_;
      out.append(kReplacement);
    } else {
      append_utf8(out, unit);
    }
  }

  // The four digits after the 'u' at which the scanner stands.
  std::uint32_t hex4() {
    std::uint32_t value = 0;
    ++at_;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const char lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) {
        value = value << 4 | static_cast<std::uint32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value << 4 | static_cast<std::uint32_t>(lower - 'a' + 10);
      } else {
        fail("\\u needs four hexadecimal digits");
      }
    }
    return value;
  }

  void digits() {
    if (!is_digit(peek())) fail("expected a digit");
    while (is_digit(peek())) ++at_;
  }

  void number() {
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
  }

  void array(int depth) {
    ++at_;
    skip_space();
    if (peek() == ']') {
      ++at_;
      return;
    }
    while (true) {
      skip_space();
      value(depth + 1);
      skip_space();
      if (peek() == ']') break;
      expect(',');
    }
    ++at_;
  }

  void object(int depth) {
    ++at_;
    for (bool first = true; next_member(first); first = false) {
      string(skipped_);
      expect(':');
      value(depth + 1);
    }
  }

  void value(int depth) {
    if (depth > kMaxDepth) fail("deeper than ", kMaxDepth, " levels");
    const char c = peek();
    if (c == '"') return string(skipped_);
    if (c == '{') return object(depth);
    if (c == '[') return array(depth);
    if (c == '-' || is_digit(c)) return number();
    for (const std::string_view word : {"true", "false", "null"})
      if (line_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return;
      }
    fail("expected a JSON value");
  }

  std::string_view line_;
  const std::string& where_;
  std::size_t at_ = 0;
  Index unpaired_ = 0, result_ = 0;
  std::string name_, skipped_;
};

}  // namespace

Index text_of_json_line(std::string_view line, const std::string& key, const std::string& where,
                        std::string& text) {
  return LineScanner(line, where).text(key, text);
}

}  // namespace chimera::data
