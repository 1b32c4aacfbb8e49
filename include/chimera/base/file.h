#pragma once
// Files: every open, write, fsync and close is checked, and errors name the path and the reason.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/types.h"

namespace chimera {

using Path = std::filesystem::path;

// The whole of a regular file. Refuses directories, and files over `limit` bytes before reading
// them.
std::string read_file(const Path& path, Index limit);

// Writes to a temporary file beside `path`, fsyncs, renames, fsyncs the directory: all or nothing.
// Refuses directories, devices and files that may not be written; follows links.
void write_file_atomically(const Path& path, std::string_view content);
// Throws as write_file_atomically would: for before the work whose result it will be.
void check_writable(const Path& path);

// A file being written. `close()` fsyncs; a destructor without close() leaves the bytes where they
// are.
class OutputFile {
 public:
  enum class Mode { Truncate, Append };
  explicit OutputFile(const Path& path, Mode mode = Mode::Truncate);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(Index offset, std::span<const std::byte> bytes);
  Index size() const { return size_; }
  void sync();
  void close();
  const Path& path() const { return path_; }

 private:
  Path path_;
  int fd_ = -1;
  Index size_ = 0;
};

// A read-only mapping of a whole regular file (an empty file maps to an empty span).
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }
  Index size() const { return size_; }
  const Path& path() const { return path_; }

 private:
  Path path_;
  const std::byte* data_ = nullptr;
  Index size_ = 0;
};

void make_directories(const Path& path);
void sync_directory(const Path& path);
void rename_path(const Path& from, const Path& to);
void remove_tree(const Path& path);

// An exclusive advisory lock on directory/name, held until destruction (also by kill -9).
// Throws when another process holds it: `what` names what the lock protects.
class DirectoryLock {
 public:
  DirectoryLock(const Path& directory, const std::string& name, const std::string& what);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

// Files that match a shell pattern, sorted; a pattern without wildcards that names no file is an
// error.
std::vector<Path> expand_pattern(const std::string& pattern);

// 128-bit XXH3 of a byte stream as 32 hexadecimal digits: detects damage, is no signature.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  void add(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  void* state_;
};

std::string checksum_of(std::span<const std::byte> bytes);
std::string checksum_of_file(const Path& path);

}  // namespace chimera
