#pragma once
// A text file in chunks that can be encoded apart, in parallel: the tokens of a document are the
// tokens of its chunks, one after the other.
//
// Why that holds: GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// has no match in which a character that is no whitespace is followed by whitespace, and its only
// look beyond a match is after whitespace. So text may be cut between a non-whitespace and a
// whitespace character: the left part matches as before, and matching begins anew at the cut. (It
// may NOT be cut after a newline: "a\n\nb" is a, \n, \n, b but "a\n\n" is a, \n\n.) For the same
// reason text without whitespace is cut after an ASCII letter or digit before an ASCII character of
// another class.
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "chimera/base/file.h"
#include "chimera/base/types.h"

namespace chimera::data {

class ByteSource;

// The last position in 1 … text.size() - 1 at which `text` may be cut; 0 when there is none.
std::size_t last_safe_cut(std::string_view text);

struct ChunkSize {
  Index target = Index{256} << 10;  // a chunk has at most this many bytes where a cut can be found
  // Without any cut in this many bytes, text is cut between two characters with one warning (tokens
  // there may differ from those of the uncut text); a line of a .jsonl file this long is an error.
  Index text_limit = Index{16} << 20;
  Index line_limit = Index{256} << 20;
};

// Where the validation part begins: a byte of a plain text, or a document of a .jsonl file, both
// counted from 0. A text is cut at the first beginning of a line (after a newline, before
// non-whitespace) within 1 MiB from that byte, else at the next character.
struct Split {
  Index at = std::numeric_limits<Index>::max();
};

enum class Part { Train, Validation };

struct TextChunk {
  std::string bytes;  // part of a document; of a .jsonl file whole lines
  Part part = Part::Train;
  Index first_line = 1;                                 // .jsonl: the line number of the first line
  bool begins_document = false, ends_document = false;  // plain text
};

// Reads the chunks of one file in order.
class ChunkReader {
 public:
  ChunkReader(const Path& file, const ChunkSize& size, const Split& split = {});
  ~ChunkReader();
  // False at the end. Throws as read_documents does on files that cannot be read.
  bool next(TextChunk& chunk);
  bool json_lines() const { return json_lines_; }
  Index consumed() const;  // bytes of the file read, of its size on disk

 private:
  bool fill(std::size_t bytes);
  void take(TextChunk& chunk, std::size_t bytes);
  void next_text(TextChunk& chunk);
  std::size_t text_cut();
  std::optional<std::size_t> text_split();
  void next_lines(TextChunk& chunk);
  std::size_t count_lines(std::size_t end);

  Path path_;
  ChunkSize size_;
  Split split_;
  bool json_lines_;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  bool end_of_file_ = false, warned_ = false, fresh_ = true;
  Part part_ = Part::Train;
  Index offset_ = 0, lines_ = 0, documents_ = 0;
};

// Text bytes (decompressed) and, for .jsonl, non-blank lines of a file. Reads the whole file where
// that is needed to know, calling progress(bytes of the file read) now and then.
struct TextSize {
  Index bytes = 0, documents = 0;
};
TextSize measure_text(const Path& file, const ChunkSize& chunk_size = {},
                      const std::function<void(Index)>& progress = {});

}  // namespace chimera::data
