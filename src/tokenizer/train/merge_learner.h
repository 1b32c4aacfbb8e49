#pragma once
// The merges of a BPE from counted words.
#include <span>

#include "chimera/tokenizer/trainer.h"
#include "tables.h"
#include "train/word_counter.h"

namespace chimera::bpe {

// Ids: special tokens, the 256 bytes by stand-in character, then merges. Each step merges the pair
// with the highest count, the lowest (left id, right id) among equals, left to right in every word;
// it ends at the vocabulary's size or when the best count is under max(min_frequency, 1). A merged
// string that is a token already keeps its id.
Tables learn_merges(std::span<const WordCounter::Word> words, const TrainOptions& options,
                    const TrainCallback& progress);

}  // namespace chimera::bpe
