#include "commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/base/json.h"
#include "chimera/checkpoint/checkpoint.h"
#include "grouped.h"

namespace chimera::cli {
namespace {

using checkpoint::Checkpoint;

template <class... Parts>
void say(const std::string& label, const Parts&... parts) {
  const std::size_t padding = label.size() < 24 ? 24 - label.size() : 1;
  std::cout << label << std::string(padding, ' ') << concat(parts...) << "\n";
}

// Tokens per sample as configured; 0 where the configuration does not say.
Index sequence_length(const checkpoint::Manifest& m) {
  const Json config = parse_json(m.config, "the checkpoint's configuration");
  const auto data = config.find("data");
  if (data == config.end() || !data->is_object()) return 0;
  const auto length = data->find("sequence_length");
  if (length == data->end() || !length->is_number_unsigned()) return 0;
  const auto tokens = length->get<std::uint64_t>();
  if (tokens == 0) return m.model.n_positions;  // the configuration's default
  return std::in_range<Index>(tokens) ? static_cast<Index>(tokens) : 0;
}

void print_contents(const Checkpoint& c) {
  const checkpoint::Manifest& m = c.manifest();
  const model::ModelConfig& model = m.model;
  say("checkpoint", c.path().string());
  say("step", grouped(m.step));
  const Index length = sequence_length(m);
  Index tokens = 0;
  const bool known = length > 0 && !__builtin_mul_overflow(m.consumed_samples, length, &tokens);
  say("samples seen", grouped(m.consumed_samples),
      known ? " of " + grouped(length) + " tokens: " + grouped(tokens) + " tokens" : "");
  say("model", "GPT-2, ", model.n_layer, " layers, ", model.n_head, " heads, ", model.n_embd,
      " wide, ", model.n_positions, " ", model.position_encoding, " positions, vocabulary ",
      model.vocab_size, model.tied_embeddings ? ", tied embeddings" : ", untied embeddings");
  say("parameters", grouped(model::parameter_count(model)));
  for (const auto& [key, value] : m.environment) say(key, value);
  if (!m.data_fingerprint.empty()) say("data", m.data_fingerprint);
  if (!m.tokenizer_fingerprint.empty()) say("tokenizer", m.tokenizer_fingerprint);
  say("tensors", m.tensors.size());
  say("bytes", grouped(m.total_bytes()), " in ", m.files.size(), " files");
  for (const checkpoint::StoredFile& file : m.files) say("  " + grouped(file.bytes), file.name);
}

// The checkpoints that `path` means: itself, or all that it holds, oldest first.
std::vector<Path> checkpoints_of(const Path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path / checkpoint::kManifestName, ignored)) return {path};
  std::vector<Path> out;
  if (std::filesystem::is_directory(path, ignored))
    for (const auto& listed : checkpoint::list_checkpoints(path)) out.push_back(listed.path);
  if (out.empty()) Checkpoint::open(path);  // throws, with the reason
  return out;
}

void print_info(const Path& path) {
  const std::vector<Path> all = checkpoints_of(path);
  if (all.size() > 1) {
    std::cout << all.size() << " checkpoints in " << path.string() << ":\n";
    for (const Path& each : all) {
      std::string step_sync = "files present";
      try {
        Checkpoint::open(each);
      } catch (const Error& e) {
        step_sync = std::string("damaged: ") + e.what();
      }
      say("  " + each.filename().string(), step_sync);
    }
    std::cout << "the newest:\n";
  }
  print_contents(Checkpoint::open(all.back()));
  std::cout << std::flush;
}

void verify_all(const Path& path) {
  std::string damage;
  for (const Path& each : checkpoints_of(path)) {
    try {
      const Checkpoint c = Checkpoint::open(each);
      c.verify();
      std::cout << each.string() << ": whole, " << grouped(c.manifest().total_bytes())
                << " bytes in " << c.manifest().files.size() << " files, "
                << c.manifest().tensors.size() << " tensors\n";
    } catch (const Error& e) {
      std::cout << each.string() << ": DAMAGED\n";
      damage += (damage.empty() ? "" : "\n") + std::string(e.what());
    }
  }
  std::cout << std::flush;
  ENSURE(damage.empty(), damage,
         "\n`chimera train --resume auto` passes damaged checkpoints over and continues from the "
         "newest whole one");
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "Look into checkpoints and check them");
  command->require_subcommand(1);
  command->footer("Example:\n  chimera checkpoint verify runs/quickstart/checkpoints");
  const auto add = [&](const char* name, const char* what, const char* example,
                       void (*run)(const Path&)) {
    auto path = std::make_shared<std::string>();
    CLI::App* sub = command->add_subcommand(name, what);
    sub->add_option("DIR", *path, "a checkpoint (step-…), or a directory of them")->required();
    sub->footer(std::string("Example:\n  ") + example);
    sub->callback([path, run] { run(*path); });
  };
  add("info", "Step, model, layout, files and sizes of the newest checkpoint",
      "chimera checkpoint info runs/quickstart/checkpoints", print_info);
  add("verify", "Compare every byte with its checksum; exit code 1 names what is damaged",
      "chimera checkpoint verify runs/quickstart/checkpoints/step-00001000", verify_all);
}

}  // namespace chimera::cli
