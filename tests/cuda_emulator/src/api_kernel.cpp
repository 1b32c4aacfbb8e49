// Launches: the checks that the driver makes, and the operation.
#include "fault.h"
#include "launch_limits.h"
#include "machine.h"
#include "race.h"
#include "shared_memory.h"
#include "symbols.h"

namespace emulator {

using chimera::concat;

DeviceLimits device_limits(int capability) {
  DeviceLimits limits;
  limits.shared_opt_in = std::size_t(capability == 80 ? 163 : capability < 90 ? 99 : 227) << 10;
  return limits;
}

// __launch_bounds__ puts one NOP for each warp at the function's entry (types.h).
int launch_bound(const void* kernel) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  const auto* p = static_cast<const unsigned char*>(kernel);
  if (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa) p += 4;  // endbr64
  int warps = 0;
  while (p[warps] == 0x90) ++warps;
  return warps * 32;
#else
  return 0;
#endif
}

namespace {

std::string text(const dim3& d) { return concat(d.x, " x ", d.y, " x ", d.z); }

void check_launch(Machine& m, const KernelLaunch& k) {
  const DeviceLimits limits = device_limits(m.options.capability);
  const std::string name = function_name(k.kernel);
  const auto threads = std::uint64_t{k.block.x} * k.block.y * k.block.z;
  const auto config = cudaErrorInvalidConfiguration;
  if (m.options.capability < m.options.code)
    refuse(cudaErrorNoKernelImageForDevice, name, ": built for compute capability ", m.options.code,
           "; the device has ", m.options.capability);
  if (threads == 0 || k.grid.x == 0 || k.grid.y == 0 || k.grid.z == 0)
    refuse(config, name, ": an empty launch, grid ", text(k.grid), ", block ", text(k.block));
  if (k.block.x > 1024 || k.block.y > 1024 || k.block.z > 64 ||
      threads > static_cast<std::uint64_t>(limits.threads))
    refuse(config, name, ": a block of ", text(k.block), " = ", threads,
           " threads; at most 1024 x 1024 x 64, and 1024 in all");
  if (k.grid.x > 2147483647u || k.grid.y > 65535u || k.grid.z > 65535u)
    refuse(config, name, ": a grid of ", text(k.grid),
           " blocks; at most 2147483647 x 65535 x 65535");
  const int bound = launch_bound(k.kernel);
  if (bound > 0 && threads > static_cast<std::uint64_t>(bound))
    refuse(cudaErrorLaunchOutOfResources, name, ": a block of ", threads,
           " threads; its __launch_bounds__ allow ", bound);
  const auto found = m.functions.find(k.kernel);
  const auto most =
      static_cast<std::size_t>(found == m.functions.end() ? FunctionSettings().dynamic_shared
                                                          : found->second.dynamic_shared);
  if (k.shared_bytes > most)
    refuse(cudaErrorInvalidValue, name, ": ", k.shared_bytes,
           " bytes of dynamic shared memory, where ", most,
           " are allowed; cudaFuncSetAttribute(kernel, "
           "cudaFuncAttributeMaxDynamicSharedMemorySize, …) allows up to ",
           limits.shared_opt_in);
}

class LaunchOperation final : public Operation {
 public:
  explicit LaunchOperation(KernelLaunch launch) : launch_(std::move(launch)) {}

  std::optional<std::string> run(Machine& m, Stream& stream) override {
    ++m.counts.kernels;
    prepare_thread_for_faults();
    m.memory.open(stream.device, m.peers[static_cast<std::size_t>(stream.device)]);
    // The order differs from launch to launch, and is the same again in the next run.
    const std::uint64_t seed = m.options.seed;
    if (race::kOn && stream.blocks == nullptr) stream.blocks = std::make_unique<BlockRunner>();
    BlockRunner& blocks = race::kOn ? *stream.blocks : m.blocks;
    auto error = blocks.run(launch_, seed < 2 ? seed : 2 + m.random.next() / 2);
    launch_.call.reset();  // here, where the sanitizer knows that all threads are done with it
    if (error) return error;
    const DeviceLimits limits = device_limits(m.options.capability);
    const std::size_t fixed = static_shared_written();
    if (fixed > limits.shared_per_block || fixed + launch_.shared_bytes > limits.shared_opt_in)
      return concat("uses ", fixed, " bytes of static and ", launch_.shared_bytes,
                    " of dynamic shared memory; a block has ", limits.shared_per_block,
                    " static and ", limits.shared_opt_in, " in all");
    return std::nullopt;
  }
  std::string what() const override { return "kernel " + function_name(launch_.kernel); }
  std::unique_ptr<Operation> clone() const override {
    return std::make_unique<LaunchOperation>(launch_);
  }

 private:
  KernelLaunch launch_;
};

void check_argument(const Machine& m, const KernelCall::PointerArgument& argument,
                    const void* kernel) {
  if (argument.address == nullptr) return;
  const Allocation* a = m.memory.find(argument.address);
  if ((a != nullptr && (a->live || a->pending)) || m.memory.pinned(argument.address)) return;
  refuse(cudaErrorInvalidValue, function_name(kernel), ": argument ", argument.position,
         " points to ", describe_address(m.memory, argument.address),
         "; a kernel can touch device and page-locked memory only");
}

}  // namespace

cudaError_t enqueue_kernel(std::unique_ptr<KernelCall> call, const void* kernel, dim3 grid,
                           dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  return api_call([&](Machine& m, auto&) {
    Stream& queue = m.stream(stream);
    for (const auto& argument : call->pointers()) check_argument(m, argument, kernel);
    KernelLaunch launch{std::move(call), kernel, grid, block, shared_bytes};
    check_launch(m, launch);
    m.enqueue(queue, std::make_unique<LaunchOperation>(std::move(launch)));
    return cudaSuccess;
  });
}

}  // namespace emulator
