#include "attention_dispatch.h"

#include "chimera/base/log.h"

namespace chimera::cuda {
namespace {

bool aligned(const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

const char* name(AttentionPass pass) {
  return pass == AttentionPass::Forward ? "forward" : "backward";
}

}  // namespace

AttentionDispatch::AttentionDispatch(cudaStream_t stream, CudaImplementation implementation,
                                     Autotuner& autotuner)
    : implementation_(implementation), autotuner_(&autotuner) {
  if (implementation == CudaImplementation::Own) return;
  library_ = find_cudnn_attention(stream, reason_);
  if (library_ == nullptr && implementation == CudaImplementation::Library)
    log_warning("GPU: attention by our own kernels; cuDNN: ", reason_);
}
AttentionDispatch::AttentionDispatch(CudaImplementation implementation, Autotuner& autotuner,
                                     std::unique_ptr<CudnnAttention> library,
                                     const std::string& reason)
    : implementation_(implementation),
      autotuner_(&autotuner),
      library_(std::move(library)),
      reason_(reason) {}

bool AttentionDispatch::prepare(const AttentionCase& c, AttentionPass pass, void*& workspace) {
  const std::pair key{c, pass};
  if (refused_.contains(key)) return false;
  std::string reason;
  std::optional<Index> bytes;
  try {
    bytes = library_->prepare(c, pass, reason);
    if (bytes && *bytes > kMostAttentionWorkspace) {
      reason = concat("it wants a workspace of ", *bytes, " bytes");
      bytes.reset();
    }
    if (bytes) workspace = *bytes == 0 ? nullptr : workspace_.get<std::byte>(*bytes);
  } catch (const Error& e) {
    reason = e.what();
    bytes.reset();
  }
  if (bytes) return true;
  refused_[key] = first_line(reason);
  log_info("GPU: attention ", name(pass), " ", to_string(c), " is not cuDNN's: ", refused_[key]);
  return false;
}

bool AttentionDispatch::cudnn_forward(Tensor out, Tensor lse, Tensor qkv, Index H) {
  const AttentionCase c = case_of(qkv, H);
  void* workspace = nullptr;
  if (lse.empty() || !aligned(out) || !aligned(lse) || !aligned(qkv)) return false;
  if (!prepare(c, AttentionPass::Forward, workspace)) return false;
  library_->forward(c, out.raw(), lse.f32(), qkv.raw(), workspace);
  return true;
}

bool AttentionDispatch::cudnn_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv,
                                       Index H) {
  const AttentionCase c = case_of(qkv, H);
  void* workspace = nullptr;
  for (const Tensor& t : {dqkv, dout, out, lse, qkv})
    if (!aligned(t)) return false;
  if (!prepare(c, AttentionPass::Backward, workspace)) return false;
  library_->backward(c, dqkv.raw(), dout.raw(), out.raw(), lse.f32(), qkv.raw(), workspace);
  return true;
}

std::string AttentionDispatch::describe() const {
  if (implementation_ == CudaImplementation::Own) return "attention: our kernels";
  if (library_ == nullptr) return concat("attention: our kernels; cuDNN: ", first_line(reason_));
  std::string text = concat(
      "attention: ", library_->version(),
      implementation_ == CudaImplementation::Library ? " where it can" : " where it is faster");
  for (const auto& [key, reason] : refused_)
    text += concat("; not ", name(key.second), " ", to_string(key.first), ": ", reason);
  return text;
}

}  // namespace chimera::cuda
