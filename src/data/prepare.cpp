#include "chimera/data/prepare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "byte_source.h"
#include "chimera/base/log.h"
#include "chimera/base/threads.h"
#include "json_batch.h"
#include "ordered_map.h"
#include "output_folder.h"

namespace chimera::data {
namespace {

struct Job {
  TextChunk chunk;
  std::size_t file = 0;
};

struct Encoded {
  std::size_t file = 0;
  Part part = Part::Train;
  Index chunk_bytes = 0;
  TextStats stats;
  std::vector<TokenId> tokens;  // with <|endoftext|>
  std::string text;             // where it is to be written, too
};

// What one thread does.
class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, const PrepareOptions& options)
      : tokenizer_(tokenizer), options_(options), end_of_text_(*tokenizer.end_of_text()) {}

  Encoded encode(Job job) {
    Encoded out{job.file, job.chunk.part, static_cast<Index>(job.chunk.bytes.size()), {}, {}, {}};
    const Path& file = options_.files[job.file];
    if (is_json_lines(file)) {
      const auto add = [&](std::string_view text) { document(text, true, true, out); };
      for_each_document(job.chunk, options_.text, file, out.stats, add);
      return out;
    }
    utf8_.add(job.chunk.bytes);
    out.stats.not_utf8 = utf8_.finish();
    out.stats.bytes = out.chunk_bytes;
    out.stats.documents = job.chunk.ends_document;
    document(job.chunk.bytes, job.chunk.begins_document, job.chunk.ends_document, out);
    return out;
  }

 private:
  void document(std::string_view text, bool begins, bool ends, Encoded& out) {
    if (begins && options_.end_of_text == EndOfText::Before) out.tokens.push_back(end_of_text_);
    tokenizer_.encode(text, SpecialTokens::AsText, scratch_, out.tokens);
    if (ends && options_.end_of_text == EndOfText::After) out.tokens.push_back(end_of_text_);
    if (options_.write_text) out.text.append(text);
  }

  Tokenizer tokenizer_;
  const PrepareOptions& options_;
  TokenId end_of_text_;
  EncodeScratch scratch_;
  Utf8Counter utf8_;
};

void add(TextStats& sum, const TextStats& more) {
  sum.documents += more.documents;
  sum.empty_documents += more.empty_documents;
  sum.bytes += more.bytes;
  sum.not_utf8 += more.not_utf8;
}

// train.txt and val.txt: built under another name, or in the new folder itself.
class TextFiles {
 public:
  TextFiles(const PrepareOptions& options, const OutputFolder& folder) {
    if (!options.write_text) return;
    const Path place =
        std::filesystem::weakly_canonical(std::filesystem::absolute(*options.write_text / "x"));
    const std::string below = place.parent_path().lexically_relative(folder.path()).string();
    const bool inside = below == ".";
    if (!inside && !below.starts_with(".."))
      FailUsage("--write-text ", options.write_text->string(),
                " lies below --output; name the same folder or one outside");
    const Path target = inside ? folder.building() : *options.write_text;
    make_directories(target);
    for (const char* name : {"train.txt", "val.txt"}) {
      const Path path = target / name;
      check_target(path, options);
      finals_.push_back(path);
      files_.emplace_back(inside ? path : Path(path.string() + ".partial"));
    }
  }
  ~TextFiles() {
    std::error_code ignored;
    for (const OutputFile& file : files_) std::filesystem::remove(file.path(), ignored);
  }
  TextFiles(const TextFiles&) = delete;

  void append(Part part, std::string_view text) {
    if (!files_.empty()) files_[part == Part::Train ? 0 : 1].write(text);
  }
  void close() {
    for (std::size_t i = 0; i < files_.size(); ++i) files_[i].close();
  }
  // After the folder is in its place.
  void commit() {
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (files_[i].path() != finals_[i]) rename_path(files_[i].path(), finals_[i]);
    files_.clear();
  }

 private:
  static void check_target(const Path& path, const PrepareOptions& options) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return;
    ENSURE(options.existing == PrepareOptions::Existing::Replace, path.string(),
           " is there already; name another --write-text, or replace it with --force");
    for (const Path& file : options.files)
      ENSURE(!std::filesystem::equivalent(path, file, error), path.string(),
             " is one of the texts to read; name another --write-text");
  }

  std::vector<Path> finals_;
  std::vector<OutputFile> files_;
};

class Preparation {
 public:
  Preparation(const Tokenizer& tokenizer, const PrepareOptions& options, OutputFolder& folder)
      : tokenizer_(tokenizer),
        options_(options),
        folder_(folder),
        width_(token_width_for(tokenizer.vocabulary_size())),
        writers_{writer("train"), writer("val")},
        texts_(options, folder),
        file_stats_(options.files.size()) {
    for (const Path& file : options.files) sizes_.push_back(size_of_file(file));
    for (const Index size : sizes_) progress_.total += size;
  }

  DatasetManifest run() {
    std::vector<Split> splits(options_.files.size());
    if (options_.validation_fraction > 0)
      for (std::size_t i = 0; i < splits.size(); ++i) splits[i] = split_of(i);
    encode_all(splits);
    for (std::size_t i = 0; i < splits.size(); ++i)
      check_documents(options_.files[i], file_stats_[i]);
    check_splits();
    DatasetManifest manifest = describe();
    texts_.close();
    save_tokenizer();
    write_file_atomically(folder_.building() / kManifestName, manifest_text(manifest));
    folder_.commit();
    texts_.commit();
    return manifest;
  }

 private:
  ShardWriter writer(const char* prefix) const {
    return {folder_.building(), prefix, width_, tokenizer_.vocabulary_size(),
            options_.shard_tokens};
  }

  ChunkSize chunk_size() const {
    ChunkSize size = options_.chunks;
    size.line_limit = options_.text.line_limit;
    return size;
  }

  void report(PrepareProgress::Phase phase, Index done) {
    if (!options_.progress) return;
    progress_.phase = phase;
    progress_.done = done;
    progress_.tokens = writers_[0].tokens() + writers_[1].tokens();
    options_.progress(progress_);
  }

  Index bytes_before(std::size_t file) const {
    Index sum = 0;
    for (std::size_t i = 0; i < file; ++i) sum += sizes_[i];
    return sum;
  }

  Split split_of(std::size_t i) {
    const Path& file = options_.files[i];
    const Index before = bytes_before(i);
    const TextSize size = measure_text(file, chunk_size(), [&](Index consumed) {
      report(PrepareProgress::Phase::Measure, before + consumed);
    });
    if (!is_json_lines(file)) {
      const double held_out = static_cast<double>(size.bytes) * options_.validation_fraction;
      return {std::max(Index{1}, size.bytes - static_cast<Index>(held_out))};
    }
    const double wanted = static_cast<double>(size.documents) * options_.validation_fraction;
    const Index held_out =
        std::clamp<Index>(std::llround(wanted), 1, std::max<Index>(1, size.documents - 1));
    return {std::max(Index{1}, size.documents - held_out)};
  }

  void encode_all(const std::vector<Split>& splits) {
    const int threads = options_.threads > 0 ? options_.threads : available_cores();
    OrderedMap<Job, Encoded> encoders(threads, [&]() -> OrderedMap<Job, Encoded>::Function {
      const auto encoder = std::make_shared<Encoder>(tokenizer_, options_);
      return [encoder](Job job) { return encoder->encode(std::move(job)); };
    });
    const std::size_t most_chunks = 8 * static_cast<std::size_t>(threads);
    const Index most_bytes = 8 * threads * options_.chunks.target;
    Index bytes_in_flight = 0;
    const auto write_oldest = [&] {
      const Encoded oldest = encoders.pop();
      bytes_in_flight -= oldest.chunk_bytes;
      write(oldest);
    };
    for (std::size_t i = 0; i < splits.size(); ++i) {
      ChunkReader reader(options_.files[i], chunk_size(), splits[i]);
      const Index before = bytes_before(i);
      for (Job job{{}, i}; reader.next(job.chunk);) {
        while (encoders.in_flight() > 0 &&
               (encoders.in_flight() >= most_chunks || bytes_in_flight >= most_bytes))
          write_oldest();
        bytes_in_flight += static_cast<Index>(job.chunk.bytes.size());
        encoders.push(std::move(job));
        report(PrepareProgress::Phase::Encode, before + reader.consumed());
        job = Job{{}, i};
      }
    }
    while (encoders.in_flight() > 0) write_oldest();
  }

  void write(const Encoded& encoded) {
    const std::size_t which = encoded.part == Part::Train ? 0 : 1;
    writers_[which].append(encoded.tokens);
    texts_.append(encoded.part, encoded.text);
    add(split_stats_[which], encoded.stats);
    add(file_stats_[encoded.file], encoded.stats);
  }

  void check_splits() const {
    ENSURE(writers_[0].tokens() > 0, "there is no text to train on");
    ENSURE(options_.validation_fraction == 0 || writers_[1].tokens() > 0, "--validation-fraction ",
           options_.validation_fraction,
           " leaves no text for validation; give a larger one, or more text");
  }

  SplitInfo split_info(std::size_t which) {
    const TextStats& stats = split_stats_[which];
    return {stats.documents, writers_[which].tokens(), stats.bytes, stats.not_utf8,
            writers_[which].close()};
  }

  DatasetManifest describe() {
    DatasetManifest m;
    m.tokenizer_fingerprint = tokenizer_.fingerprint();
    m.vocabulary_size = tokenizer_.vocabulary_size();
    m.end_of_text_id = *tokenizer_.end_of_text();
    m.end_of_text = options_.end_of_text;
    m.width = width_;
    m.validation_fraction = options_.validation_fraction;
    m.train = split_info(0);
    m.validation = split_info(1);
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      m.sources.push_back(
          {options_.files[i].string(), sizes_[i], file_stats_[i].bytes, file_stats_[i].documents});
    return m;
  }

  void save_tokenizer() const {
    try {
      tokenizer_.save(folder_.building() / kTokenizerFolder);
    } catch (const Error& e) {
      log_warning("the tokenizer is not copied into the data set: ", e.what());
      remove_tree(folder_.building() / kTokenizerFolder);
    }
  }

  const Tokenizer& tokenizer_;
  const PrepareOptions& options_;
  OutputFolder& folder_;
  TokenWidth width_;
  std::array<ShardWriter, 2> writers_;  // train, validation; as are:
  std::array<TextStats, 2> split_stats_;
  TextFiles texts_;
  std::vector<TextStats> file_stats_;
  std::vector<Index> sizes_;
  PrepareProgress progress_;
};

}  // namespace

DatasetManifest prepare(const Tokenizer& tokenizer, const PrepareOptions& options) {
  ENSURE(!options.files.empty(), "no text files are named");
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1))
    FailUsage("--validation-fraction is ", options.validation_fraction,
              "; it is at least 0 and below 1");
  ENSURE(tokenizer.end_of_text().has_value(), "the tokenizer has no ", std::string(kEndOfText),
         ", so documents could not be told apart; train one with `chimera tokenizer train`");
  OutputFolder folder(options.output, options.existing == PrepareOptions::Existing::Replace
                                          ? OutputFolder::Existing::Replace
                                          : OutputFolder::Existing::Refuse);
  return Preparation(tokenizer, options, folder).run();
}

}  // namespace chimera::data
