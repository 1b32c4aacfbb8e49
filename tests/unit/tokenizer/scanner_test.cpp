#include "chimera/tokenizer/scanner.h"

#include "tokenizer_support.h"

using namespace chimera;
using namespace chimera::test;
using Words = std::vector<std::string>;

TEST_CASE("scanner: each alternative of GPT-2's pattern, in its order") {
  CHECK(words_of("I'm you're he'd we'll they've it's don't") ==
        Words{"I", "'m", " you", "'re", " he", "'d", " we", "'ll", " they", "'ve", " it", "'s",
              " don", "'t"});
  CHECK(words_of("I'M 'Tis '") == Words{"I", "'", "M", " '", "Tis", " '"});
  CHECK(words_of(" 'sup's!'s") == Words{" '", "sup", "'s", "!'", "s"});
  CHECK(words_of("ab12cd, 3x") == Words{"ab", "12", "cd", ",", " 3", "x"});
  CHECK(words_of("naïve 中文٣½") == Words{"naïve", " 中文", "٣½"});
}

TEST_CASE("scanner: white space leaves its last character to what follows") {
  CHECK(words_of("a  b") == Words{"a", " ", " b"});
  CHECK(words_of("a\n\nb") == Words{"a", "\n", "\n", "b"});
  CHECK(words_of("a \n b") == Words{"a", " \n", " b"});
  CHECK(words_of("a   ") == Words{"a", "   "});
  CHECK(words_of("\u3000\u3000x") == Words{"\u3000", "\u3000", "x"});
  CHECK(words_of(" \u00a0x") == Words{" ", "\u00a0", "x"});  // only U+0020 joins a word
}

// Counts of Unicode 16.0 as the pattern of tiktoken 0.14 sees them.
TEST_CASE("scanner: all code points have the classes of Unicode 16.0") {
  int letters = 0, numbers = 0, spaces = 0;
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string c = utf8(code);
    letters += word_end("x" + c, 0) > 1;
    numbers += word_end("1" + c, 0) > 1;
    spaces += word_end("\n" + c, 0) > 1;  // two spaces at the end are one word
  }
  CHECK(letters == 141028);
  CHECK(numbers == 1911);
  CHECK(spaces == 25);
}

TEST_CASE("scanner: bytes that are not UTF-8 are characters of no class") {
  CHECK(words_of("a\xff\xfe b") == Words{"a", "\xff\xfe", " b"});
  CHECK(words_of("a\xc3") == Words{"a", "\xc3"});                        // cut short
  CHECK(words_of("\xc1\x81") == Words{"\xc1\x81"});                      // overlong A: not a letter
  CHECK(words_of("x\xe0\x81\x81") == Words{"x", "\xe0\x81\x81"});        // overlong too
  CHECK(words_of("x\xed\xa0\x80y") == Words{"x", "\xed\xa0\x80", "y"});  // surrogate
  CHECK(words_of("x\xf4\x90\x80\x80y") == Words{"x", "\xf4\x90\x80\x80", "y"});  // over 10FFFF
  CHECK(words_of(" \xe4\xb8x") == Words{" \xe4\xb8", "x"});  // a lone lead takes no letter with it
}

TEST_CASE("scanner: words cover any bytes, and the text may be cut where next_cut says") {
  std::mt19937 random(3);
  int cuts = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = i % 3 == 0 ? random_bytes(random, 60) : random_text(random, 30);
    const Words whole = words_of(text);
    const std::size_t cut = next_cut(text, 1 + random() % text.size());
    Words parts = words_of(std::string_view(text).substr(0, cut));
    const Words rest = words_of(std::string_view(text).substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == whole);
    cuts += cut < text.size();
  }
  CHECK(cuts > 1000);  // the texts have places to cut, else this says nothing
  CHECK(last_cut("ab cd ") == 5);
  CHECK(last_cut("ab  cd") == 2);
  CHECK(last_cut(" abcd") == 0);
  CHECK(next_cut("ab cd", 3) == 5);
}
