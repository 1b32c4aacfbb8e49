#pragma once
// A user's folder: a text, its tokenizer and shards, a configuration; and the real program run in
// it.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "chimera/base/json.h"
#include "support/support.h"

namespace chimera::test {

// A tiny run: 4 layers, 16 wide, T 8, vocabulary 300, batch 4, dropout 0.1 (the default), Chimera
// with D = 4; 12 steps, an evaluation every 4, a checkpoint every 3. Text, tokenizer and shards are
// made by the program itself. Runs are told apart by their working folder: their checkpoints and
// logs go below it under relative paths, so equal runs write equal bytes.
class Project {
 public:
  // `program`: what run() starts; text, tokenizer and shards are chimera_binary()'s.
  explicit Project(std::filesystem::path program = chimera_binary());
  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  // `chimera ARGUMENTS` in the folder `where` (made when missing), started by `launcher` where one
  // is given.
  CommandResult run(const std::string& where, const std::string& arguments,
                    const std::string& launcher = "") const;
  CommandResult train(const std::string& where, const std::string& more = "",
                      const std::string& launcher = "") const {
    return run(where, "train ../config.json " + more, launcher);
  }
  // The newest checkpoint of a run.
  std::filesystem::path newest(const std::string& where) const;
  // Every file of its checkpoints by name, as content.
  std::map<std::string, std::string> checkpoint_files(const std::string& where) const;
  // What metrics.jsonl says: the objects that have `key`.
  std::vector<Json> metrics(const std::string& where, const std::string& key) const;

 private:
  TemporaryFolder folder_;
  std::filesystem::path program_ = chimera_binary();
};

// loss, gradient norm and learning rate of each step, with all digits, and validation losses.
std::vector<std::string> curve(const Project& project, const std::string& where);

// Options under which the loss becomes infinite within some steps, after at least one checkpoint.
std::string diverging();

// Shell text that starts a command with no launcher's variables.
std::string without_launcher();

// Bytes of a uint16 shard.
std::string shard_bytes(const std::vector<int>& tokens);

}  // namespace chimera::test
