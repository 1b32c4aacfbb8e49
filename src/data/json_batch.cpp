#include "json_batch.h"

#include <algorithm>

#include "json_line.h"
#include "utf8.h"

namespace chimera::data {

void for_each_document(const TextChunk& chunk, const TextOptions& options, const Path& file,
                       TextStats& stats, const std::function<void(std::string_view)>& visit) {
  std::string_view rest(chunk.bytes);
  std::string text;
  Utf8Counter utf8;
  for (Index number = chunk.first_line; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (std::all_of(line.begin(), line.end(), is_ascii_space)) continue;
    const std::string where = concat(file.string(), ", line ", number);
    stats.not_utf8 += text_of_json_line(line, options.text_key, where, text);
    utf8.add(text);
    stats.not_utf8 += utf8.finish();
    stats.bytes += static_cast<Index>(text.size());
    stats.documents += 1;
    stats.empty_documents += text.empty();
    visit(text);
  }
}

}  // namespace chimera::data
