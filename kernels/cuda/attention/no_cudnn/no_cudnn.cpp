// In a build without cuDNN or cudnn-frontend.
#include "attention/cudnn_attention.h"

namespace chimera::cuda {

constexpr const char* kReason =
    "built without cuDNN (scripts/install_deps.sh cuda gets cudnn-frontend; CHIMERA_CUDNN=ON says "
    "what is missing)";

std::unique_ptr<CudnnAttention> find_cudnn_attention(CUstream_st*, std::string& reason) {
  reason = kReason;
  return nullptr;
}
std::vector<std::string> check_cudnn_attention(const AttentionCase&, const std::string&, int) {
  Fail(kReason);
}

}  // namespace chimera::cuda
