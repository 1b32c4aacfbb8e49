#include "chimera/data/chunks.h"

#include <algorithm>
#include <utility>

#include "byte_source.h"
#include "chimera/base/log.h"
#include "chimera/data/text_reader.h"
#include "utf8.h"

namespace chimera::data {
namespace {

constexpr Index kSplitSearch = Index{1} << 20;

enum class Class { Letter, Digit, Other };

Class class_of(char c) {
  const char lower = static_cast<char>(c | 0x20);
  if (lower >= 'a' && lower <= 'z') return Class::Letter;
  return c >= '0' && c <= '9' ? Class::Digit : Class::Other;
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

bool is_safe_cut(std::string_view text, std::size_t at) {
  if (is_ascii_space(text[at])) return ends_with_non_space(text, at);
  const Class before = class_of(text[at - 1]);
  return is_ascii(text[at]) && before != Class::Other && before != class_of(text[at]);
}

bool is_blank(std::string_view line) {
  return std::all_of(line.begin(), line.end(), is_ascii_space);
}

// Calls visit(line without newline, end of the line in text) for each line; stops when it says
// false.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t newline = text.find('\n', begin);
    const std::size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    if (!visit(text.substr(begin, end - begin), end)) return;
    begin = end;
  }
}

}  // namespace

std::size_t last_safe_cut(std::string_view text) {
  if (text.empty()) return 0;
  for (std::size_t at = text.size() - 1; at > 0; --at)
    if (is_safe_cut(text, at)) return at;
  return 0;
}

ChunkReader::ChunkReader(const Path& file, const ChunkSize& size, const Split& split)
    : path_(file),
      size_(size),
      split_(split),
      json_lines_(is_json_lines(file)),
      source_(open_bytes(file)) {
  ENSURE(size.target >= 1 && size.text_limit >= size.target && size.line_limit >= size.target,
         "chunks of ", size.target, " bytes with limits ", size.text_limit, " and ",
         size.line_limit);
}

ChunkReader::~ChunkReader() = default;

Index ChunkReader::consumed() const { return source_->consumed(); }

// Reads until the buffer has `bytes` bytes; false when the file ends before.
bool ChunkReader::fill(std::size_t bytes) {
  if (buffer_.size() < bytes && !end_of_file_) {
    const std::size_t have = buffer_.size();
    buffer_.resize(bytes);
    const std::size_t got = source_->read(std::span(buffer_).subspan(have));
    buffer_.resize(have + got);
    end_of_file_ = have + got < bytes;
  }
  return buffer_.size() >= bytes;
}

void ChunkReader::take(TextChunk& chunk, std::size_t bytes) {
  chunk.bytes.assign(buffer_, 0, bytes);
  buffer_.erase(0, bytes);
  offset_ += static_cast<Index>(bytes);
}

bool ChunkReader::next(TextChunk& chunk) {
  fill(static_cast<std::size_t>(size_.target));
  ENSURE(offset_ > 0 || !buffer_.empty(), path_.string(),
         " is empty; leave it out or give a file with text");
  if (buffer_.empty()) return false;
  if (json_lines_) {
    next_lines(chunk);
  } else {
    next_text(chunk);
  }
  return true;
}

void ChunkReader::next_text(TextChunk& chunk) {
  chunk.begins_document = std::exchange(fresh_, false);
  chunk.part = part_;
  const std::size_t cut = text_cut();  // may read past the split
  const std::optional<std::size_t> split = text_split();
  take(chunk, split ? *split : cut);
  chunk.ends_document = split.has_value() || (end_of_file_ && buffer_.empty());
  if (!split) return;
  part_ = Part::Validation;
  fresh_ = true;
}

// Where the next chunk of a text ends.
std::size_t ChunkReader::text_cut() {
  const std::size_t limit = static_cast<std::size_t>(size_.text_limit);
  std::size_t want = static_cast<std::size_t>(size_.target);
  while (true) {
    fill(want);
    if (end_of_file_ && buffer_.size() <= want) return buffer_.size();
    const std::size_t cut = last_safe_cut(std::string_view(buffer_).substr(0, want));
    if (cut > 0) return cut;
    if (want >= limit) break;
    want = std::min(2 * want, limit);
  }
  if (!std::exchange(warned_, true))
    log_warning(
        path_.string(), ": ", size_.text_limit, " bytes from byte ", offset_,
        " without a place where the tokenizer's words surely end; tokens there may differ from "
        "those of the uncut text");
  for (std::size_t cut = want - 1; cut > 0 && cut + 4 > want; --cut)
    if (next_character(buffer_, cut) == cut) return cut;
  return want;
}

// Where in the buffer the validation part begins, when it begins there.
std::optional<std::size_t> ChunkReader::text_split() {
  if (part_ == Part::Validation || offset_ + static_cast<Index>(buffer_.size()) <= split_.at)
    return std::nullopt;
  const std::size_t target = static_cast<std::size_t>(split_.at - offset_);
  fill(target + static_cast<std::size_t>(kSplitSearch));
  const std::string_view text(buffer_);
  for (std::size_t at = std::max<std::size_t>(target, 1); at < text.size(); ++at)
    if (text[at - 1] == '\n' && !is_ascii_space(text[at])) return at;
  return next_character(text, target);
}

void ChunkReader::next_lines(TextChunk& chunk) {
  std::size_t want = static_cast<std::size_t>(size_.target), end = 0;
  while (true) {
    const std::size_t newline = buffer_.rfind('\n');
    end = end_of_file_ ? buffer_.size() : newline == std::string::npos ? 0 : newline + 1;
    if (end > 0) break;
    ENSURE(buffer_.size() < static_cast<std::size_t>(size_.line_limit), path_.string(), ", line ",
           lines_ + 1, ": longer than ", size_.line_limit,
           " bytes; split the document or give it as plain text");
    want = std::min(2 * std::max(want, buffer_.size()), static_cast<std::size_t>(size_.line_limit));
    fill(want);
  }
  chunk.begins_document = chunk.ends_document = false;
  chunk.first_line = lines_ + 1;
  if (documents_ >= split_.at) part_ = Part::Validation;
  chunk.part = part_;
  take(chunk, count_lines(end));
}

// Counts the lines and documents of the buffer up to `end`, or up to the split when that comes
// first; returns where it stopped.
std::size_t ChunkReader::count_lines(std::size_t end) {
  std::size_t stopped = 0;
  for_each_line(std::string_view(buffer_).substr(0, end),
                [&](std::string_view line, std::size_t line_end) {
                  const bool document = !is_blank(line);
                  if (document && part_ == Part::Train && documents_ == split_.at) return false;
                  documents_ += document;
                  ++lines_;
                  stopped = line_end;
                  return true;
                });
  return stopped;
}

TextSize measure_text(const Path& file, const ChunkSize& chunk_size,
                      const std::function<void(Index)>& progress) {
  TextSize size;
  if (!is_json_lines(file) && without_compression(file) == file) return {size_of_file(file), 0};
  if (is_json_lines(file)) {
    ChunkReader reader(file, chunk_size);
    for (TextChunk chunk; reader.next(chunk);) {
      size.bytes += static_cast<Index>(chunk.bytes.size());
      for_each_line(chunk.bytes, [&](std::string_view line, std::size_t) {
        size.documents += !is_blank(line);
        return true;
      });
      if (progress) progress(reader.consumed());
    }
    return size;
  }
  const auto source = open_bytes(file);
  std::string buffer(std::size_t{1} << 20, '\0');
  while (const std::size_t got = source->read(buffer)) {
    size.bytes += static_cast<Index>(got);
    if (progress) progress(source->consumed());
  }
  return size;
}

}  // namespace chimera::data
