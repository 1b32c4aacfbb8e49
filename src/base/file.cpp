#include "chimera/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace chimera {
namespace {

[[noreturn]] void fail_on(const char* action, const Path& path) {
  const int error = errno;
  const char* hint =
      error == ENOSPC || error == EDQUOT ? "; free some space and run the same command again" : "";
  Fail("cannot ", action, " ", path.string(), ": ", strerror(error), hint);
}

// Opens a regular file for reading and returns descriptor and size.
std::pair<int, Index> open_regular(const Path& path) {
  // Without O_NONBLOCK the opening of a FIFO waits for a writer, for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_on("open", path);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    close(fd);
    fail_on("read the size of", path);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    Fail(path.string(), " is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file",
         "; a file is needed here");
  }
  return {fd, static_cast<Index>(info.st_size)};
}

// What a rename may replace: nothing, or a regular file that may be written. A rename would put a
// file in the place of a device, and of a link instead of what it points to.
Path behind_links(const Path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return path;
  if (!S_ISREG(info.st_mode))
    Fail(path.string(), " is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file",
         "; name a file to write");
  if (access(path.c_str(), W_OK) != 0) fail_on("write to", path);
  std::error_code error;
  const Path target = std::filesystem::canonical(path, error);
  return error || !std::filesystem::is_symlink(path, error) ? path : target;
}

}  // namespace

std::string read_file(const Path& path, Index limit) {
  const auto [fd, size] = open_regular(path);
  std::string out;
  if (size > limit) {
    close(fd);
    Fail(path.string(), " has ", size, " bytes; at most ", limit, " are accepted here");
  }
  out.resize(static_cast<std::size_t>(size));
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = read(fd, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(fd);
      errno = error;
      fail_on("read", path);
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  close(fd);
  out.resize(done);
  return out;
}

void write_file_atomically(const Path& named, std::string_view content) {
  const Path path = behind_links(named);
  const Path temporary = path.string() + ".tmp." + std::to_string(getpid());
  try {
    OutputFile file(temporary);
    file.write(content);
    file.close();
    rename_path(temporary, path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : Path("."));
}

void check_writable(const Path& named) {
  const Path temporary = behind_links(named).string() + ".tmp." + std::to_string(getpid());
  { const OutputFile file(temporary); }
  unlink(temporary.c_str());
}

OutputFile::OutputFile(const Path& path, Mode mode) : path_(path) {
  const int how = mode == Mode::Append ? O_APPEND : O_TRUNC;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (fd_ < 0) fail_on("create", path);
  const off_t end = lseek(fd_, 0, SEEK_END);
  if (end > 0) size_ = static_cast<Index>(end);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_on("write to", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    size_ += put;
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::write_at(Index offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_on("write to", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += put;
    if (offset > size_) size_ = offset;
  }
}

void OutputFile::sync() {
  if (fsync(fd_) != 0) fail_on("flush", path_);
}

void OutputFile::close() {
  if (fd_ < 0) return;
  sync();
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail_on("close", path_);
}

MappedFile::MappedFile(const Path& path) : path_(path) {
  const auto [fd, size] = open_regular(path);
  size_ = size;
  if (size > 0) {
    void* data = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      errno = error;
      fail_on("map", path);
    }
    data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

void make_directories(const Path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  ENSURE(!error, "cannot create the directory ", path.string(), ": ", error.message());
}

void sync_directory(const Path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_on("open the directory", path);
  const int failed = fsync(fd);
  const int error = errno;
  close(fd);
  errno = error;
  // Some file systems cannot fsync a directory and say EINVAL: there is nothing more to do there.
  if (failed != 0 && error != EINVAL) fail_on("flush the directory", path);
}

void rename_path(const Path& from, const Path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail_on("rename to", to);
}

void remove_tree(const Path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  ENSURE(!error, "cannot remove ", path.string(), ": ", error.message());
}

DirectoryLock::DirectoryLock(const Path& directory, const std::string& name,
                             const std::string& what) {
  const Path path = directory / name;
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_on("create the lock", path);
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  close(std::exchange(fd_, -1));
  ENSURE(error != EWOULDBLOCK, what, " ", directory.string(),
         " is in use by another process (it holds ", path.string(),
         "); wait for it to end, stop it, or choose another directory");
  errno = error;
  fail_on("lock", path);
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

std::vector<Path> expand_pattern(const std::string& pattern) {
  glob_t matches;
  std::vector<Path> out;
  const int result = glob(pattern.c_str(), 0, nullptr, &matches);
  if (result == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) out.emplace_back(matches.gl_pathv[i]);
  globfree(&matches);
  ENSURE(result == 0 || result == GLOB_NOMATCH, "cannot read the directories of the pattern ",
         pattern);
  ENSURE(!out.empty(), "no file matches ", pattern);
  return out;
}

}  // namespace chimera
