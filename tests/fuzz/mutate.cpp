#include "mutate.h"

#include <algorithm>
#include <cctype>

#include "chimera/base/check.h"
#include "chimera/base/rng.h"
#include "support/support.h"

namespace chimera::test {
namespace {

// Numbers that a Philox counter yields one after the other.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_(philox_key(seed)) {}
  std::size_t below(std::size_t n) {
    const std::uint32_t roll = philox4x32({counter_++, 0, 0, 0}, key_)[0];
    return n == 0 ? 0 : roll % n;
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t counter_ = 0;
};

const char* const kNumbers[] = {"0",
                                "-1",
                                "1",
                                "4294967296",
                                "9223372036854775807",
                                "9223372036854775808",
                                "18446744073709551615",
                                "1e400",
                                "-0",
                                "0.5"};
const char* const kPieces[] = {"{",    "}",       "[",       "]",    "\"",  ",",       ":",
                               "null", "\\u0000", "\\ud800", "\xff", "../", "{\"a\":", "[[[[[[[["};

void replace_number(std::string& text, Dice& dice) {
  const std::size_t from = dice.below(text.size());
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto begin = std::find_if(text.begin() + static_cast<long>(from), text.end(), digit);
  const auto end = std::find_if_not(begin, text.end(), digit);
  text.replace(begin, end, kNumbers[dice.below(std::size(kNumbers))]);
}

void edit(std::string& text, Dice& dice) {
  const std::size_t at = dice.below(text.size()), length = 1 + dice.below(16);
  switch (dice.below(8)) {
    case 0: text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8))); break;
    case 1: text[at] = static_cast<char>(dice.below(256)); break;
    case 2: text.insert(at, std::string(length, static_cast<char>(dice.below(256)))); break;
    case 3: text.erase(at, length); break;
    case 4: text.insert(at, text.substr(dice.below(text.size()), length * 4)); break;
    case 5: text.insert(at, kPieces[dice.below(std::size(kPieces))]); break;
    case 6: replace_number(text, dice); break;
    case 7:
      if (dice.below(4) == 0) text.resize(at);
      break;
  }
}

}  // namespace

std::string mutated(const std::string& seed, std::uint64_t number) {
  Dice dice(number);
  std::string out = seed;
  for (std::size_t edits = 1 + dice.below(8); edits > 0 && !out.empty(); --edits) edit(out, dice);
  return out;
}

FuzzCount replay(const std::vector<std::string>& seeds, int mutations,
                 const std::function<void(const std::string&)>& harness) {
  FuzzCount count;
  for (std::size_t seed = 0; seed < seeds.size(); ++seed)
    for (int number = -1; number < mutations; ++number) {
      const std::string input =
          number < 0 ? seeds[seed] : mutated(seeds[seed], static_cast<std::uint64_t>(number));
      try {
        harness(input);
        ++count.accepted;
      } catch (const Error&) {
        ++count.refused;
      } catch (const std::exception& e) {
        FAIL("seed " << seed << ", mutation " << number << ": " << e.what());
      }
    }
  return count;
}

}  // namespace chimera::test
