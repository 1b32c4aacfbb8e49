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

Symbols read_symbols() {
  Symbols symbols;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> image{std::istreambuf_iterator<char>(file), {}};
  if (image.size() < sizeof(ElfW(Ehdr))) return symbols;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(image.data());
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(image.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* names = image.data() + sections[sections[i].sh_link].sh_offset;
    const auto* first = reinterpret_cast<const ElfW(Sym)*>(image.data() + sections[i].sh_offset);
    for (const auto* s = first; s != first + sections[i].sh_size / sizeof *s; ++s)
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

}  // namespace emulator
