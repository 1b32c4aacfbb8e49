#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>

#include "chimera/train/evaluate.h"
#include "chimera/train/generate.h"
#include "commands.h"

namespace chimera::cli {

void add_eval_command(CLI::App& app) {
  struct Arguments {
    std::string checkpoint;
    std::vector<std::string> data;
    Index sequence_length = 0, samples = 0;
    std::string device = "auto";
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "eval", "Loss, perplexity and bits per byte of a checkpoint on token shards");
  command
      ->add_option("--checkpoint", arguments->checkpoint,
                   "a checkpoint, or a directory of them (the newest is taken)")
      ->required();
  command->add_option("--data", arguments->data, "token shards: paths or patterns")->required();
  command
      ->add_option("--sequence-length", arguments->sequence_length,
                   "tokens per sample; 0: as in training")
      ->capture_default_str();
  command->add_option("--samples", arguments->samples, "only the first so many samples; 0: all")
      ->capture_default_str();
  command->add_option("--device", arguments->device, "auto (a GPU, where there is one), cpu, cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command->footer(
      "Example:\n  chimera eval --checkpoint runs/quickstart/checkpoints --data "
      "'runs/quickstart/data/val-*.bin'");
  command->callback([arguments] {
    if (arguments->sequence_length < 0)
      FailUsage("--sequence-length is ", arguments->sequence_length,
                "; it must be 0 (as in training) or more");
    if (arguments->samples < 0)
      FailUsage("--samples is ", arguments->samples, "; it must be 0 (all) or more");
    const train::EvaluationReport r = train::evaluate_checkpoint(
        arguments->checkpoint, arguments->data, arguments->sequence_length, arguments->samples,
        arguments->device);
    std::printf("checkpoint  %s (step %ld)\n", r.checkpoint.c_str(), static_cast<long>(r.step));
    std::printf("tokens      %ld of %ld in %ld samples of %ld\n", static_cast<long>(r.tokens),
                static_cast<long>(r.tokens_in_data), static_cast<long>(r.samples),
                static_cast<long>(r.sequence_length));
    std::printf("loss        %.4f\nperplexity  %.3f\n", r.loss, std::exp(r.loss));
    if (r.bytes_per_token > 0)
      std::printf("bits/byte   %.4f (%.3f bytes per token)\n",
                  r.loss / std::log(2.0) / r.bytes_per_token, r.bytes_per_token);
    std::fflush(stdout);
  });
}

void add_generate_command(CLI::App& app) {
  struct Arguments {
    std::string checkpoint, tokenizer, prompt;
    Index tokens = 200, samples = 1, seed = 1;
    train::SamplingOptions sampling;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt, token by token");
  command
      ->add_option("--checkpoint", a->checkpoint,
                   "a checkpoint, or a directory of them (the newest is taken)")
      ->required();
  command->add_option("--prompt", a->prompt,
                      "text to continue; without one the model begins a document");
  command->add_option("--tokenizer", a->tokenizer,
                      "folder or .tiktoken file; default: the checkpoint's own");
  command->add_option("--max-tokens", a->tokens, "most tokens to generate")->capture_default_str();
  command->add_option("--samples", a->samples, "how many continuations")->capture_default_str();
  command->add_option("--temperature", a->sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", a->sampling.top_k, "only the k likeliest; 0: all")
      ->capture_default_str();
  command->add_option("--top-p", a->sampling.top_p, "the fewest whose probabilities reach p")
      ->capture_default_str();
  command->add_option("--seed", a->seed, "equal seeds give equal text")->capture_default_str();
  command->footer(
      "Example:\n  chimera generate --checkpoint runs/quickstart/checkpoints --prompt 'In the "
      "beginning' --top-k 40");
  command->callback([a] {
    train::check_sampling(a->sampling);
    if (a->tokens < 1) FailUsage("--max-tokens is ", a->tokens, "; it must be 1 or more");
    if (a->samples < 1) FailUsage("--samples is ", a->samples, "; it must be 1 or more");
    if (a->seed < 0) FailUsage("--seed is ", a->seed, "; it must be 0 or more");
    train::TextModel model(a->checkpoint, a->tokenizer);
    for (Index i = 0; i < a->samples; ++i) {
      if (a->samples > 1) std::cout << "--- sample " << i + 1 << "\n";
      bool begun = false;  // the prompt is echoed once it is known to fit
      train::SamplingOptions sampling = a->sampling;
      sampling.seed = static_cast<std::uint64_t>(a->seed) + static_cast<std::uint64_t>(i);
      const train::EndReason end =
          model.continue_text(a->prompt, a->tokens, sampling, [&](std::string_view piece) {
            if (!begun) std::cout << a->prompt;
            begun = true;
            std::cout << piece << std::flush;
          });
      if (!begun) std::cout << a->prompt;  // it ended at once
      std::cout << std::endl;
      if (end == train::EndReason::ContextFull)
        std::cerr << "(the context of " << model.context() << " tokens is full)\n";
    }
  });
}

}  // namespace chimera::cli
