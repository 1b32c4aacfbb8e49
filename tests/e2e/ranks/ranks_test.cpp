// One configuration, threads or ranks: the same numbers, the same files. Wrong launches are
// refused.
#include "e2e/project.h"

namespace chimera::test {
namespace {

using Catch::Contains;

std::string mpiexec(int ranks) { return CHIMERA_MPIEXEC_N + std::to_string(ranks); }

void check_same(const std::string& layout, int workers) {
  const Project project;
  const CommandResult local = project.train("local", layout);
  const CommandResult ranks = project.train("ranks", layout, mpiexec(workers));
  INFO(local.err << ranks.err);
  REQUIRE(local.exit_code == 0);
  REQUIRE(ranks.exit_code == 0);
  REQUIRE(curve(project, "local").size() == 12 + 3);
  CHECK(curve(project, "local") == curve(project, "ranks"));
  CHECK(project.checkpoint_files("local") == project.checkpoint_files("ranks"));
  // What is said once is said by one rank alone.
  CHECK(ranks.out.find("data: ") == ranks.out.rfind("data: "));
  CHECK(ranks.err.empty());
}

}  // namespace

TEST_CASE("ranks: four ranks equal four threads to the last digit, chimera, samples of text on") {
  check_same("--set train.sample_every=6", 4);
}

TEST_CASE("ranks: two ranks equal two threads to the last digit, 1f1b, untied") {
  check_same(
      "--set parallel.schedule=1f1b --set parallel.depth=2 --set model.tied_embeddings=false", 2);
}

TEST_CASE("ranks: two replicas of two ranks equal four threads to the last digit") {
  check_same("--set parallel.depth=2 --set parallel.width=2 --set parallel.micro_batches=2", 4);
}

// Every schedule, and every way to run one, by its command: threads, ranks, evaluations and
// checkpoints on the way.
TEST_CASE("ranks: every schedule: four ranks equal four threads to the last digit") {
  const std::string loose = "--set optimizer.grad_clip=0 --set model.tied_embeddings=false ";
  for (const std::string layout :
       {"schedule=gems", "schedule=zb-h1",
        "schedule=interleaved --set parallel.depth=2 --set parallel.virtual_stages=2 --set "
        "parallel.width=2 --set parallel.micro_batches=2",
        "scaling=doubling --set parallel.depth=2 --set parallel.width=2 --set "
        "parallel.micro_batches=4 --set parallel.recompute=full",
        "gradient_sync=eager --set parallel.zero_stage=1 --set parallel.recompute=selective",
        "split_backward=true", "split_backward=true --set parallel.overlap_steps=true",
        "pipeline_pairs=2 --set parallel.gradient_sync=eager-opt",
        "schedule=pipedream --set parallel.micro_batches=1", "schedule=pipedream-2bw"}) {
    INFO(layout);
    check_same(loose + "--set parallel." + layout, 4);
  }
}

TEST_CASE("ranks: one rank under a launcher is a whole job of one worker") {
  const Project project;
  const std::string one = "--set parallel.schedule=1f1b --set parallel.depth=1";
  REQUIRE(project.train("local", one).exit_code == 0);
  REQUIRE(project.train("ranks", one, mpiexec(1)).exit_code == 0);
  CHECK(curve(project, "local") == curve(project, "ranks"));
}

TEST_CASE("ranks: more or fewer ranks than the layout needs, or singletons, are refused") {
  const Project project;
  const auto refused = [&](const std::string& launcher, const std::string& more,
                           const std::string& message, const std::string& way_out) {
    const CommandResult r = project.train("run", more, launcher);
    INFO(launcher << " " << more << "\n" << r.out << r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains(message) && Contains(way_out));
    CHECK(!std::filesystem::exists(project / "run/log"));
  };
  for (const int ranks : {1, 3, 5})
    refused(mpiexec(ranks), "", "the launcher started " + std::to_string(ranks) + " process",
            "mpirun -n 4");
  refused(mpiexec(4), "--set parallel.transport=local", "parallel.transport is local",
          "without the launcher");
  refused("", "--set parallel.transport=mpi", "no launcher", "mpirun -n 4");
  for (const std::string name : {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"})
    refused("env " + name + "=4", "", "the launcher started 4 processes but MPI sees 1", "srun");
}

TEST_CASE("ranks: a bad configuration is reported once, not by every rank") {
  const Project project;
  const CommandResult r = project.train("run", "--set train.step=3", mpiexec(4));
  INFO(r.err);
  CHECK(r.exit_code == 2);
  CHECK(r.err.find("unknown key") != r.err.npos);
  CHECK(r.err.find("unknown key") == r.err.rfind("unknown key"));
}

TEST_CASE("ranks: a rank that fails ends the job with its cause first") {
  const Project project;
  const CommandResult infinite = project.train("infinite", diverging(), mpiexec(4));
  INFO(infinite.out << infinite.err);
  CHECK(infinite.exit_code == 1);
  CHECK_THAT(infinite.err, Catch::StartsWith("rank ") && Contains("step ") &&
                               Contains("not finite") && Contains("Lower optimizer.learning_rate"));

  // The data are missing where rank 0 runs.
  const std::string hide =
      mpiexec(4) +
      " sh -c 'test \"${PMI_RANK:-$OMPI_COMM_WORLD_RANK}\" != 0 || cd ..; exec \"$@\"' x";
  const CommandResult missing =
      project.run("run", "train " + (project / "config.json").string(), hide);
  INFO(missing.out << missing.err);
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, Catch::StartsWith("rank 0: there is no tokenizer at ../data/tokenizer"));
  CHECK(missing.err.find("MPI_Init") == missing.err.npos);

  // A bad token comes to the ranks that read it, in the middle of a step.
  spit(project / "high.bin", shard_bytes(std::vector<int>(200, 300)));
  for (const std::string& launcher : {std::string(), mpiexec(4)}) {
    const CommandResult bad = project.train("bad", "--set data.train=../high.bin", launcher);
    INFO(launcher << bad.out << bad.err);
    CHECK(bad.exit_code == 1);
    CHECK_THAT(bad.err, Contains("../high.bin: token id 300 at byte"));
    CHECK(bad.err.find("token id 300") < bad.err.find("another worker failed"));
  }
}

}  // namespace chimera::test
