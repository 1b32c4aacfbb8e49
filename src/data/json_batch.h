#pragma once
// The documents in a chunk of a .jsonl file.
#include <functional>
#include <string_view>

#include "chimera/data/chunks.h"
#include "chimera/data/text_reader.h"

namespace chimera::data {

// Calls visit(text) for each non-blank line of the chunk and adds to `stats`. Errors name the file
// and the line.
void for_each_document(const TextChunk& chunk, const TextOptions& options, const Path& file,
                       TextStats& stats, const std::function<void(std::string_view)>& visit);

// Once a file is read: throws when it held no document; warns of bytes that are not UTF-8 and of
// empty documents.
void check_documents(const Path& file, const TextStats& stats);

}  // namespace chimera::data
