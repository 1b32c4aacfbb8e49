#include "commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <fstream>
#include <iostream>
#include <memory>

#include "chimera/base/stopwatch.h"
#include "chimera/data/text_reader.h"
#include "chimera/tokenizer/scanner.h"
#include "chimera/tokenizer/tokenizer.h"
#include "chimera/tokenizer/trainer.h"

namespace chimera::cli {
namespace {

constexpr const char* kTokenizerHelp = "Folder with vocab.json and merges.txt, or a .tiktoken file";

constexpr std::size_t kBlock = std::size_t{16} << 20;  // of text read at a time

void finish_tokens() {
  std::cout.flush();
  ENSURE(std::cout.good(), "cannot write to standard output; is the disk full?");
}

// Calls sink with the blocks of a file, or of standard input for "-".
template <class Sink>
void read_blocks(const std::string& file, const Sink& sink) {
  std::ifstream opened;
  if (file != "-") {
    ENSURE(!std::filesystem::is_directory(file), file, " is a directory; a file is needed here");
    opened.open(file, std::ios::binary);
    ENSURE(opened, "cannot open ", file, "; does it exist, and may it be read?");
  }
  std::istream& in = file == "-" ? std::cin : opened;
  std::string block(kBlock, '\0');
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    ENSURE(!in.bad(), "cannot read ", file == "-" ? "standard input" : file);
    sink(std::string_view(block).substr(0, static_cast<std::size_t>(in.gcount())));
  }
}

struct TrainArguments {
  TrainOptions options;
  std::vector<std::string> files;
  std::string output;
  data::TextOptions text;
  bool force = false;
};

// The fingerprint of what stands in the folder: empty where nothing does, "damaged" where it cannot
// be loaded.
std::string fingerprint_in(const Path& folder) {
  namespace fs = std::filesystem;
  if (!fs::exists(folder / "vocab.json") && !fs::exists(folder / "merges.txt")) return "";
  try {
    return Tokenizer::load(folder).fingerprint();
  } catch (const Error&) {
    return "damaged";
  }
}

// One line on a terminal, at most ten times a second.
TrainCallback progress_line() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [shown = false, since_shown = Stopwatch()](const TrainProgress& p) mutable {
    const bool end = p.total > 0 && p.done == p.total;
    if (!end && shown && since_shown.seconds() < 0.1) return;
    shown = true;
    since_shown.restart();
    if (p.phase == TrainProgress::Phase::Reading)
      std::cerr << "\rcounted the words of " << p.done / 1000000 << " MB   " << std::flush;
    else
      std::cerr << "\rlearned " << p.done << " of " << p.total << " tokens   " << (end ? "\n" : "")
                << std::flush;
  };
}

void train(const TrainArguments& arguments) {
  check_train_options(arguments.options);
  TokenizerTrainer trainer(progress_line());
  for (const std::string& file : arguments.files)
    data::read_documents(file, arguments.text, [&](std::string_view part, data::DocumentEnd end) {
      trainer.add_part(part);
      if (end == data::DocumentEnd::Yes) trainer.end_text();
    });
  const Tokenizer tokenizer = trainer.finish(arguments.options);
  const std::string there = fingerprint_in(arguments.output);
  const bool same = there == tokenizer.fingerprint();
  ENSURE(
      there.empty() || same || arguments.force, arguments.output,
      " holds another tokenizer; name another --output, or say --force to replace it (shards and "
      "checkpoints made with it will not fit the new one)");
  if (!same) tokenizer.save(arguments.output);
  std::cout << arguments.output << ": " << tokenizer.vocabulary_size() << " tokens, "
            << tokenizer.merge_count() << " merges from " << trainer.bytes()
            << " bytes, fingerprint " << tokenizer.fingerprint() << (same ? " (unchanged)" : "")
            << "\n";
  finish_tokens();
}

void add_train(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("train", "Learn a byte-level BPE from texts");
  const auto a = std::make_shared<TrainArguments>();
  command->add_option("FILE", a->files, "Texts or .jsonl files, each also as .gz or .zst")
      ->required();
  command
      ->add_option("--vocab-size", a->options.vocab_size,
                   "Tokens, the 256 bytes and <|endoftext|> included")
      ->required();
  command->add_option("--output", a->output, "Folder for vocab.json and merges.txt")->required();
  command
      ->add_option("--min-frequency", a->options.min_frequency,
                   "Pairs seen less often are not merged")
      ->capture_default_str();
  command->add_option("--text-key", a->text.text_key, "Key of the text in .jsonl files")
      ->capture_default_str();
  command->add_flag("--force", a->force, "Replace another tokenizer in the output folder");
  command->footer(
      "Example:\n  chimera tokenizer train --vocab-size 4096 --output data/tokenizer data/*.txt");
  command->callback([a] { train(*a); });
}

struct EncodeArguments {
  std::string tokenizer, file = "-";
  bool special = false;
};

void print_ids(const std::vector<TokenId>& ids, bool& first) {
  std::string out;
  for (const TokenId id : ids) {
    if (!first) out += ' ';
    first = false;
    out += std::to_string(id);
  }
  std::cout << out;
}

void encode(const EncodeArguments& arguments) {
  const Tokenizer tokenizer = Tokenizer::load(arguments.tokenizer);
  const auto special = arguments.special ? SpecialTokens::Recognize : SpecialTokens::AsText;
  bool first = true;
  std::string text;
  read_blocks(arguments.file, [&](std::string_view block) {
    text += block;
    if (text.size() < kBlock) return;
    const std::size_t cut = last_cut(text);
    print_ids(tokenizer.encode_parallel(std::string_view(text).substr(0, cut), special), first);
    text.erase(0, cut);
  });
  print_ids(tokenizer.encode_parallel(text, special), first);
  std::cout << '\n';
  finish_tokens();
}

void add_encode(CLI::App& parent) {
  CLI::App* command =
      parent.add_subcommand("encode", "Print the token ids of a text, separated by spaces");
  const auto a = std::make_shared<EncodeArguments>();
  command->add_option("FILE", a->file, "Any bytes; - or nothing: standard input");
  command->add_option("--tokenizer", a->tokenizer, kTokenizerHelp)->required();
  command->add_flag("--special", a->special, "<|endoftext|> in the text means that token");
  command->footer(
      "Example:\n  echo -n 'In the beginning' | chimera tokenizer encode --tokenizer "
      "data/tokenizer");
  command->callback([a] { encode(*a); });
}

struct DecodeArguments {
  std::string tokenizer;
  std::vector<std::string> ids;
};

void print_token(const Tokenizer& tokenizer, std::string_view word) {
  TokenId id = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, id);
  ENSURE(error == std::errc() && stop == end, "\"", word.substr(0, 80),
         "\" is no token id; ids are integers from 0 to ", tokenizer.vocabulary_size() - 1);
  std::cout << tokenizer.token_bytes(id);
}

void decode(const DecodeArguments& arguments) {
  const Tokenizer tokenizer = Tokenizer::load(arguments.tokenizer);
  for (const std::string& word : arguments.ids) print_token(tokenizer, word);
  std::string word;
  if (arguments.ids.empty())
    while (std::cin >> word) print_token(tokenizer, word);
  finish_tokens();
}

void add_decode(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("decode", "Print the bytes that token ids stand for");
  const auto a = std::make_shared<DecodeArguments>();
  command->add_option("ID", a->ids,
                      "Token ids; none: from standard input, separated by white space");
  command->add_option("--tokenizer", a->tokenizer, kTokenizerHelp)->required();
  command->footer("Example:\n  chimera tokenizer decode --tokenizer gpt2.tiktoken 818 262 3726");
  command->callback([a] { decode(*a); });
}

void info(const std::string& path) {
  const Tokenizer tokenizer = Tokenizer::load(path);
  const bool folder = std::filesystem::is_directory(path);
  std::cout << "tokenizer    " << path << "\n"
            << "format       " << (folder ? "vocab.json + merges.txt" : ".tiktoken") << "\n"
            << "vocabulary   " << tokenizer.vocabulary_size() << "\n"
            << "merges       " << tokenizer.merge_count() << "\n"
            << "end of text  ";
  if (const auto id = tokenizer.end_of_text())
    std::cout << *id << "\n";
  else
    std::cout << "none\n";
  std::cout << "special      ";
  for (const TokenId id : tokenizer.special_tokens())
    std::cout << tokenizer.token_bytes(id) << " (" << id << ") ";
  std::cout << "\nfingerprint  " << tokenizer.fingerprint() << "\n";
  finish_tokens();
}

void add_tokenizer_info(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("info", "Size, special tokens and fingerprint");
  const auto path = std::make_shared<std::string>();
  command->add_option("--tokenizer", *path, kTokenizerHelp)->required();
  command->footer("Example:\n  chimera tokenizer info --tokenizer data/tokenizer");
  command->callback([path] { info(*path); });
}

}  // namespace

void add_tokenizer_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tokenizer", "Train a byte-level BPE tokenizer, encode and decode with one");
  command->require_subcommand(1);
  command->footer(
      "Example:\n  chimera tokenizer train --vocab-size 4096 --output data/tokenizer "
      "data/*.txt");
  add_train(*command);
  add_encode(*command);
  add_decode(*command);
  add_tokenizer_info(*command);
}

}  // namespace chimera::cli
