#pragma once
// Deterministic mutation of valid files: the same inputs in every run, so a failure can be repeated
// by its number. A harness is one function from bytes to "accepted", which may throw Error only.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace chimera::test {

// Mutation `number` of `seed`: one to eight edits (flip, overwrite, insert, delete, repeat, cut, a
// number replaced by an extreme one), a function of both alone.
std::string mutated(const std::string& seed, std::uint64_t number);

struct FuzzCount {
  int refused = 0, accepted = 0;
};

// Feeds every seed and `mutations` mutations of each to the harness. Error counts as refused; any
// other exception fails the test with the input's number.
FuzzCount replay(const std::vector<std::string>& seeds, int mutations,
                 const std::function<void(const std::string&)>& harness);

}  // namespace chimera::test
