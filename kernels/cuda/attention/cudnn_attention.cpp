#include "cudnn_attention.h"

namespace chimera::cuda {

std::string to_string(const AttentionCase& c) {
  return concat(chimera::to_string(c.type), " B ", c.B, " H ", c.H, " T ", c.T, " head ", c.head);
}

bool cudnn_eligible(const AttentionCase& c) {
  return (c.type == DType::BF16 || c.type == DType::F16) && c.head % 8 == 0 && c.head <= 128 &&
         c.B > 0 && c.T > 0;
}

}  // namespace chimera::cuda
