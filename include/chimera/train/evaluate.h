#pragma once
// A checkpoint in use: its loss on data, and text from it. One process, depth 1.
#include <memory>
#include <string>
#include <vector>

#include "chimera/train/generate.h"

namespace chimera::train {

struct EvaluationReport {
  std::string checkpoint;
  Index step = 0, samples = 0, sequence_length = 0, tokens = 0, tokens_in_data = 0;
  double loss = 0;             // nats per token
  double bytes_per_token = 0;  // of the text behind the shards; 0 where no dataset.json tells
};
// `sequence_length` 0: that of training; `samples` 0: all whole samples; `device` as device.kind.
EvaluationReport evaluate_checkpoint(const std::string& checkpoint,
                                     const std::vector<std::string>& shards, Index sequence_length,
                                     Index samples, const std::string& device = "auto");

class TextModel {
 public:
  // `tokenizer` empty: the copy in the checkpoint, else the path that its configuration names.
  TextModel(const std::string& checkpoint, const std::string& tokenizer);
  ~TextModel();
  Index context() const;
  EndReason continue_text(std::string_view prompt, Index tokens, const SamplingOptions& options,
                          const std::function<void(std::string_view)>& sink);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace chimera::train
