// The whole program on an emulated GPU, as a user starts it.
#include <nlohmann/json.hpp>

#include "e2e/project.h"
#include "support/support.h"

namespace chimera::test {
namespace {

// One emulated machine per process. AutotuneCache by timing are off: they may differ from run to
// run.
const std::string kGpu = "--set device.kind=cuda --set device.tune=false ";

struct GpuProject : Project {
  GpuProject() : Project(CHIMERA_EMULATED_PROGRAM) {}
  CommandResult train_ok(const std::string& where, const std::string& more = "",
                         const std::string& launcher = "") const {
    const CommandResult result = train(where, kGpu + more, launcher);
    INFO(result.out + result.err);
    REQUIRE(result.exit_code == 0);
    return result;
  }
};

void check_refused(const CommandResult& result, const std::vector<std::string>& said) {
  INFO(result.out + result.err);
  CHECK(result.exit_code == 1);
  for (const std::string& text : said) {
    INFO(text);
    CHECK(result.err.find(text) != std::string::npos);
  }
}

// Losses and norms, to what the rounding of fp32 sums leaves.
void check_close(const std::vector<Json>& a, const std::vector<Json>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (const char* key : {"loss", "grad_norm"}) {
      INFO("line " << i << " " << key);
      const double x = a[i].at(key).get<double>(), y = b[i].at(key).get<double>();
      CHECK(std::abs(x - y) < 1e-4 * std::abs(y));
    }
}

}  // namespace

TEST_CASE("gpu program: trains as on the CPU, stops, resumes to the last bit") {
  const GpuProject project;
  project.train_ok("whole");
  const CommandResult cpu = project.train("cpu", "--set device.kind=cpu");
  REQUIRE(cpu.exit_code == 0);
  check_close(project.metrics("whole", "loss"), project.metrics("cpu", "loss"));

  // A run that ends evaluates, and its last step bends the schedule of rates: neither here.
  const std::string plain = "--set lr_schedule.type=constant --set train.eval_every=0 ";
  project.train_ok("one", plain);
  project.train_ok("parts", plain + "--set train.steps=6");
  project.train_ok("parts", plain);
  CHECK(curve(project, "one") == curve(project, "parts"));

  const CommandResult elsewhere =
      project.train("parts", plain + "--set train.steps=13 --set device.kind=cpu");
  INFO(elsewhere.out + elsewhere.err);
  CHECK(elsewhere.exit_code == 0);
  CHECK(elsewhere.err.find("device CUDA emulator, cuBLASLt 13.0.0 -> cpu") != std::string::npos);

  const auto loss_on = [&](const std::string& device) {
    const CommandResult result = project.run(
        "whole", "eval --checkpoint checkpoints --data '../data/val-*.bin' --device " + device);
    INFO(result.out + result.err);
    REQUIRE(result.exit_code == 0);
    return std::stod(result.out.substr(result.out.find("loss ") + 5));
  };
  CHECK(std::abs(loss_on("cuda") - loss_on("cpu")) < 2e-4);  // printed with four digits
}

TEST_CASE("gpu program: not enough memory is said before step 0, with what would fit") {
  const GpuProject project;
  // Four workers on one GPU; each has half a GiB in reserve.
  const CommandResult result =
      project.train("small", kGpu, "CHIMERA_EMULATOR_MEMORY=$((1536 * 1024 * 1024))");
  check_refused(result, {"not enough memory on cuda:0", "by 4 workers",
                         "parameters, weights: ", "in reserve, for what kernels need: 512.00 MiB",
                         "fewer workers per GPU", "chimera plan"});
  CHECK(result.out.find("step ") == std::string::npos);
}

TEST_CASE("gpu program: what the machine lacks is one clear line") {
  const GpuProject project;
  check_refused(project.train("none", kGpu, "CHIMERA_EMULATOR_DEVICES=0"),
                {"device.kind is cuda, but ", "no GPU"});
  const CommandResult instead = project.train("instead", "", "CHIMERA_EMULATOR_DEVICES=0");
  CHECK(instead.exit_code == 0);  // auto: the CPU

  const std::string turing = "CHIMERA_EMULATOR_CAPABILITY=75";
  check_refused(project.train("turing", kGpu, turing),
                {"was not built for cuda:0", "8.0 or newer", "set device.kind to cpu"});
  const CommandResult old = project.train("auto", "", turing);
  INFO(old.out + old.err);
  CHECK(old.exit_code == 0);
  CHECK_THAT(old.err, Catch::Contains("computing on the CPU, for cuda:0") &&
                          Catch::Contains("no code for compute capability 7.5"));
  CHECK(curve(project, "auto") == curve(project, "instead"));

  // Without the check, NCCL's ranks would wait for each other until the deadline.
  check_refused(
      project.train("nccl", kGpu + "--set parallel.transport=nccl", "CHIMERA_EMULATOR_DEVICES=3"),
      {"one worker per GPU", "4 workers and 3 GPUs", "set it to auto"});
}

// A node whose GPU is lost: the others would wait for a message of their GPUs until the deadline.
TEST_CASE("gpu program: auto is the same device for all ranks") {
  const std::string launcher = CHIMERA_MPIEXEC_N;
  if (launcher.empty()) {
    WARN("no mpiexec: not run");
    return;
  }
  const GpuProject project;
  const CommandResult mixed = project.train(
      "mixed", "--set parallel.depth=2 --set parallel.schedule=1f1b --set parallel.transport=mpi",
      launcher +
          R"(2 sh -c 'rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; CHIMERA_EMULATOR_DEVICES=$rank exec "$0" "$@"')");
  check_refused(mixed, {"device.kind is auto, but 1 of 2 workers have no GPU", "worker 0",
                        "set device.kind to cpu"});
  CHECK(mixed.err.find("waited") == std::string::npos);
}

TEST_CASE("gpu program: ranks stage their messages through the host, a GPU for each") {
  const std::string launcher = CHIMERA_MPIEXEC_N;
  if (launcher.empty()) {
    WARN("no mpiexec: not run");
    return;
  }
  const GpuProject project;
  const std::string two = "--set parallel.depth=2 --set parallel.schedule=1f1b ";
  project.train_ok("threads", two);
  project.train_ok("ranks", two + "--set parallel.transport=mpi",
                   "CHIMERA_EMULATOR_DEVICES=2 " + launcher + "2");
  CHECK(curve(project, "threads") == curve(project, "ranks"));

  // Debian's MPIs say that they do not know CUDA: they are not given what they cannot read.
  const CommandResult aware = project.train(
      "aware", kGpu + two + "--set parallel.transport=mpi --set parallel.gpu_aware_mpi=true",
      "CHIMERA_EMULATOR_DEVICES=2 " + launcher + "2");
  INFO(aware.out + aware.err);
  CHECK(aware.exit_code == 2);
  CHECK(aware.err.find("cannot be given pointers to GPU memory") != std::string::npos);

  const CommandResult shared = project.train("shared", kGpu + two + "--set parallel.transport=mpi",
                                             "CHIMERA_EMULATOR_DEVICES=1 " + launcher + "2");
  check_refused(shared, {"ranks 0 and 1 would share cuda:0", "no more ranks on a node"});
}

}  // namespace chimera::test
