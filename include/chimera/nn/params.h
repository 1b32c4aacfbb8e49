#pragma once
// The parameters of one stage: names as in Hugging Face's GPT-2, their place, and how they begin.
#include <string>
#include <vector>

#include "chimera/tensor/layout.h"

namespace chimera::nn {

enum class Init { Zeros, Ones, Normal, Sinusoidal };

struct Parameter {
  std::string name;
  Region region;
  int order = 0;  // position in the whole model: order of norms, stream of initial values
  int depth = 0;  // 0 embeddings, i + 1 block i, n_layer + 1 final norm and untied head
  Init init = Init::Zeros;
  float deviation = 0;  // of Init::Normal
  bool frozen = false;  // kept as it is: no update, not in the gradient norm
  bool decays() const { return region.rank >= 2; }  // weight decay on matrices alone
};

struct ParameterLayout {
  Layout layout;
  std::vector<Parameter> parameters;  // in model order

  // Fills in name, region; `parameter` brings the rest.
  Region add(const std::string& name, std::initializer_list<Index> shape, Parameter parameter);
};

}  // namespace chimera::nn
