#include "chimera/data/text_reader.h"

#include "byte_source.h"
#include "chimera/base/log.h"
#include "chimera/data/chunks.h"
#include "json_batch.h"

namespace chimera::data {

bool is_json_lines(const Path& file) { return without_compression(file).extension() == ".jsonl"; }

TextStats read_documents(const Path& file, const TextOptions& options,
                         const std::function<void(std::string_view, DocumentEnd)>& sink) {
  ChunkReader reader(file, {.line_limit = options.line_limit});
  TextStats stats;
  Utf8Counter utf8;
  for (TextChunk chunk; reader.next(chunk);) {
    if (reader.json_lines()) {
      const auto one = [&](std::string_view text) { sink(text, DocumentEnd::Yes); };
      for_each_document(chunk, options, file, stats, one);
      continue;
    }
    utf8.add(chunk.bytes);
    stats.bytes += static_cast<Index>(chunk.bytes.size());
    stats.documents += chunk.ends_document;
    sink(chunk.bytes, chunk.ends_document ? DocumentEnd::Yes : DocumentEnd::No);
  }
  stats.not_utf8 += utf8.finish();
  check_documents(file, stats);
  return stats;
}

void check_documents(const Path& file, const TextStats& stats) {
  ENSURE(stats.documents > 0, file.string(),
         " has blank lines only; leave it out or give a file with documents");
  if (stats.not_utf8 > 0)
    log_warning(file.string(), ": ", stats.not_utf8,
                " bytes are not UTF-8; they are kept as they are");
  if (stats.empty_documents > 0)
    log_warning(file.string(), ": ", stats.empty_documents, " of ", stats.documents,
                " documents are empty");
}

}  // namespace chimera::data
