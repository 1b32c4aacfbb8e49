#pragma once
// Static shared memory: the section that __shared__ variables are put into.
#include <cstddef>
#include <vector>

namespace emulator {

// The dynamic shared memory of a block, between zones that must stay as they are.
class DynamicShared {
 public:
  static constexpr std::size_t kAlignment = 128;
  // Poisons `bytes` for a new block.
  void prepare(std::size_t bytes);
  void* data() const { return data_; }
  // Whether something was written within 128 bytes behind the end (the address sanitizer stops even
  // reads there).
  bool overrun() const;

 private:
  std::vector<unsigned char> memory_;
  unsigned char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

void renew_static_shared();
// Bytes of the section that no longer hold poison.
std::size_t static_shared_written();

}  // namespace emulator
