#include "memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "asan.h"
#include "chimera/base/check.h"
#include "emulator/types.h"

namespace emulator {

using chimera::concat;

namespace {

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20, kAlignment = 256;
constexpr std::size_t kFreedKept = 256;  // mappings without memory
constexpr unsigned char kCanary = 0xC5;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// The bytes of the pages of an allocation before and behind it.
template <class Visit>
void for_margins(const Allocation& a, Visit visit) {
  char* const first = a.mapping + kPage;
  char* const last = a.mapping + a.mapping_bytes - kPage;
  visit(first, static_cast<std::size_t>(a.address - first));
  visit(a.address + a.bytes, static_cast<std::size_t>(last - (a.address + a.bytes)));
}

void unmap(const Allocation& a) {
  ASAN_UNPOISON_MEMORY_REGION(a.mapping, a.mapping_bytes);
  munmap(a.mapping, a.mapping_bytes);
}

__attribute__((no_sanitize_address)) std::ptrdiff_t first_change(const char* from,
                                                                 std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (static_cast<unsigned char>(from[i]) != kCanary) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, allocation] : allocations_) unmap(allocation);
  for (const Allocation& allocation : freed_) unmap(allocation);
}

void* DeviceMemory::allocate(int device, std::size_t bytes, bool live) {
  Allocation a;
  const std::size_t aligned = round_up(bytes, kAlignment), pages = round_up(aligned, kPage);
  a.mapping_bytes = pages + 2 * kPage;
  void* memory = mmap(nullptr, a.mapping_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  a.mapping = static_cast<char*>(memory);
  // Opening and closing costs less so.
  if (pages >= kHugePage) madvise(a.mapping, a.mapping_bytes, MADV_HUGEPAGE);
  mprotect(a.mapping, kPage, PROT_NONE);
  mprotect(a.mapping + kPage + pages, kPage, PROT_NONE);
  a.address = a.mapping + kPage + pages - aligned;
  a.bytes = bytes;
  a.device = device;
  a.live = live;
  a.pending = !live;
  a.open = true;
  poison(a.address, bytes);
  for_margins(a, [](char* from, std::size_t n) {
    std::fill_n(from, n, static_cast<char>(kCanary));
    ASAN_POISON_MEMORY_REGION(from, n);
  });
  protect(a, live && (open_devices_ >> device & 1u));
  allocations_.emplace(a.address, a);
  return a.address;
}

void DeviceMemory::make_live(void* address) {
  const auto found = allocations_.find(static_cast<char*>(address));
  if (found == allocations_.end()) return;
  found->second.live = true;
  found->second.pending = false;
  protect(found->second, open_devices_ >> found->second.device & 1u);
}

std::optional<std::string> DeviceMemory::check(const Allocation& a) {
  std::optional<std::string> damage;
  for_margins(a, [&](const char* from, std::size_t n) {
    const std::ptrdiff_t at = first_change(from, n);
    if (at < 0 || damage) return;
    const std::ptrdiff_t offset = from + at - a.address;
    damage = concat("something was written ",
                    offset < 0 ? concat(-offset, " bytes before")
                               : concat(offset - static_cast<std::ptrdiff_t>(a.bytes),
                                        " bytes past the end of"),
                    " an allocation of ", a.bytes, " bytes on device ", a.device);
  });
  return damage;
}

std::optional<std::string> DeviceMemory::release(void* address) {
  const auto found = allocations_.find(static_cast<char*>(address));
  if (found == allocations_.end()) return std::nullopt;
  Allocation a = found->second;
  allocations_.erase(found);
  protect(a, true);
  auto damage = check(a);
  madvise(a.mapping, a.mapping_bytes, MADV_DONTNEED);
  a.live = false;
  protect(a, false);
  freed_.push_back(a);
  if (freed_.size() > kFreedKept) {
    unmap(freed_.front());
    freed_.pop_front();
  }
  return damage;
}

std::optional<std::string> DeviceMemory::check_guards() const {
  for (const auto& [address, allocation] : allocations_) {
    if (!allocation.live) continue;
    Allocation a = allocation;  // opened for the check alone
    protect(a, true);
    auto damage = check(a);
    if (!allocation.open) protect(a, false);
    if (damage) return damage;
  }
  return std::nullopt;
}

const Allocation* DeviceMemory::find(const void* address) const {
  const char* p = static_cast<const char*>(address);
  const auto inside = [&](const Allocation& a) {
    return p >= a.mapping && p < a.mapping + a.mapping_bytes;
  };
  auto next = allocations_.upper_bound(p);
  if (next != allocations_.end() && inside(next->second)) return &next->second;
  if (next != allocations_.begin() && inside(std::prev(next)->second))
    return &std::prev(next)->second;
  for (const Allocation& a : freed_)
    if (inside(a)) return &a;
  return nullptr;
}

std::size_t DeviceMemory::bytes_used(int device) const {
  std::size_t sum = 0;
  for (const auto& [address, a] : allocations_)
    if (a.device == device) sum += round_up(a.bytes, kAlignment);
  return sum;
}

void DeviceMemory::protect(Allocation& a, bool open) {
  if (a.open == open) return;
  a.open = open;
  mprotect(a.mapping + kPage, a.mapping_bytes - 2 * kPage,
           open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void DeviceMemory::open(int device, std::uint64_t peers) {
  const std::uint64_t wanted = peers | std::uint64_t{1} << device;
  if (wanted == open_devices_) return;
  open_devices_ = wanted;
  for (auto& [address, a] : allocations_) protect(a, a.live && (wanted >> a.device & 1u));
}

void DeviceMemory::close() {
  if (open_devices_ == 0) return;
  open_devices_ = 0;
  for (auto& [address, a] : allocations_) protect(a, false);
}

void DeviceMemory::pin(const void* address, std::size_t bytes) {
  pinned_[static_cast<const char*>(address)] = bytes;
}

bool DeviceMemory::unpin(const void* address) {
  return pinned_.erase(static_cast<const char*>(address)) == 1;
}

bool DeviceMemory::pinned(const void* address) const {
  const char* p = static_cast<const char*>(address);
  auto next = pinned_.upper_bound(p);
  if (next == pinned_.begin()) return false;
  --next;
  return p < next->first + next->second;
}

std::string describe_address(const DeviceMemory& memory, const void* address) {
  const Allocation* a = memory.find(address);
  if (a == nullptr) return memory.pinned(address) ? "page-locked host memory" : "host memory";
  const auto offset = static_cast<const char*>(address) - a->address;
  const auto bytes = static_cast<std::ptrdiff_t>(a->bytes);
  std::string text = offset < 0       ? concat(-offset, " bytes before")
                     : offset < bytes ? concat("byte ", offset, " of")
                                      : concat(offset - bytes, " bytes past the end of");
  return concat(text, a->live ? " an allocation of " : " a freed or not yet allocated block of ",
                a->bytes, " bytes on device ", a->device);
}

}  // namespace emulator
