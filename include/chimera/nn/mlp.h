#pragma once
// The two linear layers of a block: y = gelu(x W_1 + b_1) W_2 + b_2, 4C wide between.   x, y (R, C)
#include "chimera/nn/linear.h"
#include "chimera/nn/recompute.h"

namespace chimera::nn {

struct MlpConfig {
  Index C = 0;
  float deviation = 0.02f, output_deviation = 0.02f;  // of the initial W_1, W_2
  DType type = DType::F32;
};

class Mlp {
 public:
  static constexpr int kParameters = 2 * Linear::kParameters;
  // Declares prefix.c_fc and prefix.c_proj; `order` is the first one's position.
  Mlp(ParameterLayout& params, const std::string& prefix, const MlpConfig& config, int layer,
      int order);

  // From the forward to the backward, in the activation buffer.
  struct Saved {
    Region fc;                   // (R, 4C) before the GELU
    std::optional<Region> gelu;  // (R, 4C) behind it; none under Selective
  };
  Saved declare_saved(Layout& activations, const std::string& name, Index rows, Recompute) const;
  Region declare_wide(Layout& workspace, Index rows) const;  // (R, 4C), scratch of every call

  // An empty y is left out with all that it alone needs: to fill the activation buffer again.
  void forward(Pass& pass, const Saved& saved, const Region& wide, Tensor y, Tensor x) const;
  // d_fc (R, 4C) and dx from dy. d_fc may stand in the place of fc, or of wide.
  void backward_input(Pass& pass, const Saved& saved, const Region& wide, Tensor dx, Tensor d_fc,
                      Tensor dy) const;
  // Under Selective it reads fc, and leaves nothing of a d_fc that stands in the place of wide.
  void backward_weight(Pass& pass, const Saved& saved, const Region& wide, Tensor d_fc, Tensor dy,
                       Tensor x) const;

  void decode(Pass& pass, Tensor y, Tensor fc, Tensor x) const;  // fc (R, 4C) is scratch

 private:
  MlpConfig config_;
  Linear c_fc_, c_proj_;
};

}  // namespace chimera::nn
