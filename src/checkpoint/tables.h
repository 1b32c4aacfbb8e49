#pragma once
// The tables of files and tensors as JSON, in the manifest and in the records of writing workers.
#include <span>
#include <string>
#include <vector>

#include "chimera/base/json_reader.h"
#include "chimera/checkpoint/manifest.h"

namespace chimera::checkpoint {

Json to_json(const StoredFile& file);
Json to_json(const StoredTensor& tensor);  // without the name, which is its key

// Sorted by name.
std::vector<StoredFile> parse_files(const JsonReader& list);
std::vector<StoredTensor> parse_tensors(const JsonReader& object);

// Throws unless the names of both tables are unique and every tensor lies in one of the files
// without overlapping another. Both tables are sorted by name.
void check_tables(std::span<const StoredFile> files, std::span<const StoredTensor> tensors,
                  const std::string& where);

}  // namespace chimera::checkpoint
