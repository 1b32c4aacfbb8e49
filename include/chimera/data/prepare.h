#pragma once
// `chimera data prepare`: text files to token shards, streamed, on all cores.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chimera/data/chunks.h"
#include "chimera/data/manifest.h"
#include "chimera/data/text_reader.h"
#include "chimera/tokenizer/tokenizer.h"

namespace chimera::data {

struct PrepareProgress {
  enum class Phase { Measure, Encode };
  Phase phase = Phase::Encode;
  Index done = 0, total = 0;  // bytes of the files on disk
  Index tokens = 0;           // written
};

struct PrepareOptions {
  enum class Existing { Refuse, Replace };

  std::vector<Path> files;
  Path output;
  Existing existing = Existing::Refuse;  // when `output` is there and not empty
  // The last part of each file goes to the validation shards: of a plain text by bytes, cut at a
  // line; of a .jsonl file by documents, rounded (at least one of two or more). Files whose length
  // is not known beforehand (.jsonl, compressed) are then read twice.
  double validation_fraction = 0;
  EndOfText end_of_text = EndOfText::After;
  Index shard_tokens = 100'000'000;
  TextOptions text;
  // Also write train.txt and val.txt there: the texts of each split, byte for byte, documents one
  // after the other with nothing between them.
  std::optional<Path> write_text;
  int threads = 0;  // 0: all cores
  ChunkSize chunks;
  std::function<void(const PrepareProgress&)> progress;
};

// Makes the folder `output`: train-000000.bin …, val-000000.bin …, dataset.json and the tokenizer's
// files in tokenizer/. Special tokens in the text are ordinary text. The folder is built beside its
// place and renamed when it is complete: an error or a kill leaves what was there. Equal input
// gives equal bytes, whatever the number of threads. Memory: about 16 chunks per thread, and one
// line of a .jsonl file.
DatasetManifest prepare(const Tokenizer& tokenizer, const PrepareOptions& options);

}  // namespace chimera::data
