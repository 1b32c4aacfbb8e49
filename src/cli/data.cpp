#include "commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>

#include "chimera/base/format.h"
#include "chimera/base/stopwatch.h"
#include "chimera/data/dataset.h"
#include "chimera/data/manifest.h"
#include "chimera/data/prepare.h"

namespace chimera::cli {
namespace {

void finish_output() {
  std::cout.flush();
  ENSURE(std::cout.good(), "cannot write to standard output; is the disk full?");
}

// One line on a terminal, at most ten times a second; the last one stays.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) std::cerr << "\n";
  }
  void show(const data::PrepareProgress& p) {
    if (phase_ != p.phase) in_phase_.restart();
    phase_ = p.phase;
    if (p.done < p.total && shown_ && since_shown_.seconds() < 0.1) return;
    since_shown_.restart();
    const double share =
        p.total > 0 ? static_cast<double>(p.done) / static_cast<double>(p.total) : 1;
    const double spent = in_phase_.seconds(), megabytes = static_cast<double>(p.done) * 1e-6;
    const bool encoding = p.phase == data::PrepareProgress::Phase::Encode;
    std::cerr << format("\r%s %3.0f %%  %.0f of %.0f MB  %.1f MB/s  %.1f M tokens  %.0f s left   ",
                        encoding ? "tokens" : "size  ", 100 * share, megabytes,
                        static_cast<double>(p.total) * 1e-6, megabytes / std::max(spent, 1e-3),
                        static_cast<double>(p.tokens) * 1e-6,
                        share > 0 ? spent * (1 - share) / share : 0)
              << std::flush;
    shown_ = true;
  }

 private:
  data::PrepareProgress::Phase phase_ = data::PrepareProgress::Phase::Encode;
  Stopwatch in_phase_, since_shown_;
  bool shown_ = false;
};

struct PrepareArguments {
  data::PrepareOptions options;
  std::vector<std::string> files;
  std::string tokenizer, output, write_text, end_of_text = "after";
  bool force = false;
};

void print_split(const char* name, const data::SplitInfo& split) {
  if (split.shards.empty()) return;
  const double bytes_per_token =
      static_cast<double>(split.bytes) / static_cast<double>(split.tokens);
  std::cout << format(
      "%-10s  %12lld tokens  %9lld documents  %13lld bytes of text  %.3f bytes/token  %zu "
      "shard%s\n",
      name, static_cast<long long>(split.tokens), static_cast<long long>(split.documents),
      static_cast<long long>(split.bytes), bytes_per_token, split.shards.size(),
      split.shards.size() == 1 ? "" : "s");
}

void prepare(PrepareArguments& a) {
  data::PrepareOptions& options = a.options;
  options.files.assign(a.files.begin(), a.files.end());
  options.output = a.output;
  options.end_of_text = a.end_of_text == "after" ? data::EndOfText::After : data::EndOfText::Before;
  if (a.force) options.existing = data::PrepareOptions::Existing::Replace;
  if (!a.write_text.empty()) options.write_text = a.write_text;
  const Tokenizer tokenizer = Tokenizer::load(a.tokenizer);
  const Stopwatch watch;
  data::DatasetManifest manifest;
  {
    ProgressLine line;
    if (isatty(STDERR_FILENO) != 0)
      options.progress = [&](const data::PrepareProgress& p) { line.show(p); };
    manifest = data::prepare(tokenizer, options);
  }
  print_split("train", manifest.train);
  print_split("validation", manifest.validation);
  const double spent = watch.seconds();
  const double megabytes =
      static_cast<double>(manifest.train.bytes + manifest.validation.bytes) * 1e-6;
  std::cout << a.output << ": " << to_string(manifest.width) << " shards, vocabulary "
            << manifest.vocabulary_size
            << format(", %.1f s, %.1f MB/s\n", spent, megabytes / spent);
  finish_output();
}

void add_prepare(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("prepare", "Turn text files into token shards");
  const auto a = std::make_shared<PrepareArguments>();
  data::PrepareOptions& options = a->options;
  command->add_option("FILE", a->files, "Texts or .jsonl files, each also as .gz or .zst")
      ->required();
  command
      ->add_option("--tokenizer", a->tokenizer,
                   "Folder with vocab.json and merges.txt, or a .tiktoken file")
      ->required();
  command
      ->add_option("--output", a->output,
                   "Folder to make: train-*.bin, val-*.bin, dataset.json, tokenizer/")
      ->required();
  command
      ->add_option("--validation-fraction", options.validation_fraction,
                   "Share of each file, its last part, that becomes validation data")
      ->capture_default_str();
  command->add_option("--text-key", options.text.text_key, "Key of the text in .jsonl files")
      ->capture_default_str();
  command
      ->add_option("--end-of-text", a->end_of_text,
                   "Whether <|endoftext|> stands after or before each document")
      ->check(CLI::IsMember({"after", "before"}))
      ->capture_default_str();
  command->add_option("--shard-tokens", options.shard_tokens, "Tokens per shard file")
      ->check(CLI::Range(Index{1}, data::kMaxShardTokens))
      ->capture_default_str();
  command->add_option("--write-text", a->write_text,
                      "Folder for train.txt and val.txt, the exact text of each part");
  command->add_option("--threads", options.threads, "Threads that encode; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_flag("--force", a->force,
                    "Replace a data set in the output folder, once the new one is complete");
  command->footer(
      "Example:\n  chimera data prepare --tokenizer data/tokenizer --output data/books "
      "--validation-fraction 0.05 "
      "books/*.txt.gz");
  command->callback([a] { prepare(*a); });
}

struct InfoArguments {
  std::vector<std::string> patterns;
  Index sequence_length = 1024;
  bool verify = false;
};

// Checks the shard against what dataset.json says of it.
void check_listed(const data::Shard& shard, std::optional<std::uint32_t> largest,
                  const data::DatasetManifest& manifest, bool verify) {
  const std::string path = shard.path().string();
  const data::ShardInfo& listed = data::info_of(manifest, shard.path().filename().string());
  ENSURE(listed.tokens == shard.tokens(), path, " has ", shard.tokens(),
         " tokens, but dataset.json says ", listed.tokens, "; prepare the data again");
  ENSURE(!largest || *largest < manifest.vocabulary_size, path, ": the largest id is ", *largest,
         ", but dataset.json says that the vocabulary has ", manifest.vocabulary_size,
         ": the file is damaged; copy or prepare it again");
  if (!verify) return;
  const std::string sum = checksum_of(shard.bytes());
  ENSURE(sum == listed.checksum, path, ": the checksum is ", sum, ", but dataset.json says ",
         listed.checksum, ": the file is damaged; copy or prepare it again");
}

void print_origin(const data::DatasetManifest& m, const Path& folder) {
  std::cout << "\n"
            << (folder / data::kManifestName).string() << ": tokenizer " << m.tokenizer_fingerprint
            << ", vocabulary " << m.vocabulary_size << ", <|endoftext|> is " << m.end_of_text_id
            << ", " << to_string(m.end_of_text) << " each document\n";
  print_split("train", m.train);
  print_split("validation", m.validation);
  const std::size_t shown = std::min<std::size_t>(m.sources.size(), 10);
  for (std::size_t i = 0; i < shown; ++i)
    std::cout << "from " << m.sources[i].path << ", " << m.sources[i].documents << " documents, "
              << m.sources[i].text_bytes << " bytes of text\n";
  if (shown < m.sources.size()) std::cout << "and " << m.sources.size() - shown << " more files\n";
}

void info(const InfoArguments& a) {
  Index files = 0, tokens = 0, samples = 0;
  std::map<Path, data::DatasetManifest> manifests;  // by folder
  for (const std::string& given : a.patterns)
    for (const Path& path :
         expand_pattern(std::filesystem::is_directory(given) ? given + "/*.bin" : given)) {
      const data::Shard shard(path);
      const std::optional<std::uint32_t> largest = shard.largest_id();
      const std::optional<data::DatasetManifest> manifest = data::manifest_of(path);
      ENSURE(manifest || !a.verify, path.string(),
             " is listed in no dataset.json beside it; drop --verify");
      if (manifest) check_listed(shard, largest, *manifest, a.verify);
      if (manifest) manifests.emplace(path.parent_path(), *manifest);
      const Index here = std::max(Index{0}, shard.tokens() - 1) / a.sequence_length;
      std::cout << path.string() << ": " << shard.tokens() << " tokens, "
                << to_string(shard.width())
                << (largest ? ", largest id " + std::to_string(*largest) : "") << ", " << here
                << " samples of " << a.sequence_length << (a.verify ? ", checksum right" : "")
                << "\n";
      ++files;
      tokens += shard.tokens();
      samples += here;
    }
  std::cout << files << " shards, " << tokens << " tokens, " << samples << " samples\n";
  for (const auto& [folder, manifest] : manifests) print_origin(manifest, folder);
  finish_output();
}

void add_info(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("info", "Check token shards and say what they hold");
  const auto a = std::make_shared<InfoArguments>();
  command->add_option("SHARD", a->patterns, "Shards, or patterns in quotes")->required();
  command->add_option("--sequence-length", a->sequence_length, "Tokens per sample")
      ->check(CLI::Range(Index{1}, data::kMaxShardTokens))
      ->capture_default_str();
  command->add_flag("--verify", a->verify, "Compare each file with its checksum in dataset.json");
  command->footer("Example:\n  chimera data info --sequence-length 128 'data/books/train-*.bin'");
  command->callback([a] { info(*a); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", "Token shards from texts, and what shards hold");
  command->require_subcommand(1);
  command->footer(
      "Example:\n  chimera data prepare --tokenizer data/tokenizer --output data/books "
      "--validation-fraction 0.05 "
      "books/*.txt");
  add_prepare(*command);
  add_info(*command);
}

}  // namespace chimera::cli
