#include "byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

namespace chimera::data {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 18;

// A regular file read from its beginning.
class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const Path& path) : path_(path) {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not wait
    ENSURE(fd_ >= 0, "cannot open ", path.string(), ": ", strerror(errno));
    struct stat info;
    const bool regular = fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
    if (regular) {
      size_ = static_cast<Index>(info.st_size);
      return;
    }
    const bool directory = S_ISDIR(info.st_mode);
    close(fd_);
    Fail(path.string(), " is ",
         directory ? "a directory; name the text files in it" : "not a regular file",
         directory ? "" : "; save its text to a file first (it may be read twice)");
  }
  ~PlainSource() override { close(fd_); }
  PlainSource(const PlainSource&) = delete;

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = ::read(fd_, out.data() + done, out.size() - done);
      if (got < 0 && errno == EINTR) continue;
      ENSURE(got >= 0, "cannot read ", path_.string(), " at byte ", consumed_, ": ",
             strerror(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
      consumed_ += got;
    }
    return done;
  }
  Index consumed() const override { return consumed_; }
  Index size() const { return size_; }
  const Path& path() const { return path_; }

 private:
  Path path_;
  int fd_ = -1;
  Index size_ = 0, consumed_ = 0;
};

// What the two decompressors share: a window of compressed input.
class CompressedInput {
 public:
  explicit CompressedInput(const Path& path) : file_(path), buffer_(kInputBytes) {}

  // The unread input, refilled when it is used up; empty only at the end of the file.
  std::span<char> available() {
    if (used_ == filled_) {
      filled_ = file_.read(buffer_);
      used_ = 0;
    }
    return std::span(buffer_).subspan(used_, filled_ - used_);
  }
  void use(std::size_t bytes) { used_ += bytes; }
  Index consumed() const { return file_.consumed() - static_cast<Index>(filled_ - used_); }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    Fail(file_.path().string(), ": ", parts..., " at byte ", consumed(), " of ", file_.size(),
         "; fetch or compress the file again");
  }

 private:
  PlainSource file_;
  std::vector<char> buffer_;
  std::size_t used_ = 0, filled_ = 0;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const Path& path) : input_(path) {
    constexpr int kGzipOnly = 16;
    ENSURE(inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK,
           "zlib cannot start: out of memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const std::span<char> in = input_.available();
      if (in.empty()) {
        if (in_member_ || first_) input_.fail("the gzip data is cut off");
        break;
      }
      if (!in_member_ && !begin_member(in)) continue;
      done += inflate_some(in, out.subspan(done));
    }
    return done;
  }
  Index consumed() const override { return input_.consumed(); }

 private:
  // Between members: zero padding is skipped, as gzip does; anything else starts a member.
  bool begin_member(std::span<char> in) {
    if (!first_ && in.front() == 0) {
      input_.use(1);
      return false;
    }
    inflateReset(&stream_);
    in_member_ = true;
    first_ = false;
    return true;
  }

  std::size_t inflate_some(std::span<char> in, std::span<char> out) {
    const std::size_t room = std::min(out.size(), std::size_t{1} << 30);
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    input_.use(in.size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      in_member_ = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      input_.fail("damaged gzip data (", stream_.msg != nullptr ? stream_.msg : "no gzip file",
                  ")");
    }
    return room - stream_.avail_out;
  }

  CompressedInput input_;
  z_stream stream_{};
  bool in_member_ = false, first_ = true;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(const Path& path) : input_(path), stream_(ZSTD_createDStream()) {
    ENSURE(stream_ != nullptr, "zstd cannot start: out of memory");
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos < output.size) {
      const std::span<char> in = input_.available();
      // Without input the decoder may still hold output; it is at rest when it asks for a new
      // frame.
      if (in.empty() && (frame_done_ || flushed_)) break;
      ZSTD_inBuffer input{in.data(), in.size(), 0};
      const std::size_t before = output.pos;
      const std::size_t result = ZSTD_decompressStream(stream_, &output, &input);
      input_.use(input.pos);
      if (ZSTD_isError(result)) input_.fail("damaged zstd data (", ZSTD_getErrorName(result), ")");
      frame_done_ = result == 0;
      flushed_ = in.empty() && output.pos == before;
    }
    if (output.pos < output.size && !frame_done_) input_.fail("the zstd data is cut off");
    return output.pos;
  }
  Index consumed() const override { return input_.consumed(); }

 private:
  CompressedInput input_;
  ZSTD_DStream* stream_;
  bool frame_done_ = false, flushed_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const Path& file) {
  if (file.extension() == ".gz") return std::make_unique<GzipSource>(file);
  if (file.extension() == ".zst") return std::make_unique<ZstdSource>(file);
  return std::make_unique<PlainSource>(file);
}

Path without_compression(const Path& file) {
  const bool compressed = file.extension() == ".gz" || file.extension() == ".zst";
  return compressed ? file.parent_path() / file.stem() : file;
}

Index size_of_file(const Path& file) { return PlainSource(file).size(); }

}  // namespace chimera::data
