#pragma once
// Text files as documents, streamed in bounded memory whatever their size.
//   NAME.jsonl   one JSON object per line; its string `text_key` is a document
//   other names  the whole file is one document
// Both also as .gz (concatenated members too) and .zst. Bytes that are not UTF-8 are kept and
// counted.
#include <functional>
#include <string>
#include <string_view>

#include "chimera/base/file.h"
#include "chimera/base/types.h"

namespace chimera::data {

struct TextOptions {
  std::string text_key = "text";
  Index line_limit =
      Index{256} << 20;  // longest line of a .jsonl file, in bytes; a longer one is an error
};

enum class DocumentEnd { No, Yes };

struct TextStats {
  Index documents = 0;
  Index empty_documents = 0;  // of these, in a .jsonl file: texts of zero bytes
  Index bytes = 0;            // of text, after decompression and unescaping
  Index not_utf8 =
      0;  // bytes that belong to no valid UTF-8 character, and unpaired \ud800 … \udfff
};

// Calls sink(chunk, end) in order: the chunks of a document one after the other, the last with
// DocumentEnd::Yes. Chunks break anywhere, also within a character. Throws with path and line (or
// byte): damaged compression, a line that is no JSON object, a missing or non-string key, a
// directory, an unreadable or empty file. Bytes that are not UTF-8 are one warning with their
// count.
TextStats read_documents(const Path& file, const TextOptions& options,
                         const std::function<void(std::string_view, DocumentEnd)>& sink);

// Whether the name says JSON lines: .jsonl, .jsonl.gz, .jsonl.zst.
bool is_json_lines(const Path& file);

// Counts bytes outside valid UTF-8 (RFC 3629) over a text that comes in chunks.
class Utf8Counter {
 public:
  void add(std::string_view chunk);
  // Ends the text: an unfinished character counts. Returns the count so far and starts afresh.
  Index finish();

 private:
  void add_byte(unsigned char byte);
  Index invalid_ = 0;
  int pending_ = 0;   // bytes of an unfinished character seen
  int expected_ = 0;  // continuation bytes still missing
  unsigned char low_ = 0x80, high_ = 0xbf;
};

}  // namespace chimera::data
