#include "symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

namespace emulator {
namespace {

using Symbols = std::map<std::uintptr_t, std::string>;

std::uintptr_t load_address() {
  std::uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        *static_cast<std::uintptr_t*>(data) = info->dlpi_addr;
        return 1;  // the first is the executable
      },
      &base);
  return base;
}

// The file this program was started from. Its headers are trusted: the system has loaded it.
class Image {
 public:
  Image() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::span<const ElfW(Shdr)> sections() const {
    if (bytes_.size() < sizeof(ElfW(Ehdr))) return {};
    return {at<ElfW(Shdr)>(header().e_shoff), header().e_shnum};
  }
  const char* name(const ElfW(Shdr) & section) const {
    return at<char>(sections()[header().e_shstrndx].sh_offset + section.sh_name);
  }
  template <class T>
  const T* at(std::size_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }

 private:
  const ElfW(Ehdr) & header() const { return *at<ElfW(Ehdr)>(0); }
  std::vector<char> bytes_;
};

Symbols read_symbols() {
  Symbols symbols;
  const Image image;
  for (const auto& section : image.sections()) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* names = image.at<char>(image.sections()[section.sh_link].sh_offset);
    const auto* first = image.at<ElfW(Sym)>(section.sh_offset);
    for (const auto* s = first; s != first + section.sh_size / sizeof *s; ++s)
      if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_value != 0)
        symbols.emplace(s->st_value, names + s->st_name);
  }
  return symbols;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  std::string full = text != nullptr ? text.get() : name;
  const std::string nameless = "(anonymous namespace)::";
  for (std::size_t at; (at = full.find(nameless)) != std::string::npos;)
    full.erase(at, nameless.size());
  if (full.starts_with("void ")) full.erase(0, 5);
  return full.substr(0, full.find('('));
}

}  // namespace

std::string function_name(const void* address) {
  static const Symbols symbols = read_symbols();
  const auto found = symbols.find(reinterpret_cast<std::uintptr_t>(address) - load_address());
  return found == symbols.end() ? "a kernel" : demangled(found->second);
}

std::vector<std::span<unsigned char>> sections(const std::string& name) {
  std::vector<std::span<unsigned char>> out;
  const Image image;
  for (const auto& section : image.sections())
    if ((section.sh_flags & SHF_ALLOC) && std::string(image.name(section)).starts_with(name))
      out.emplace_back(reinterpret_cast<unsigned char*>(load_address() + section.sh_addr),
                       section.sh_size);
  return out;
}

}  // namespace emulator
