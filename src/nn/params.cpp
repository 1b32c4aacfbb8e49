#include "chimera/nn/params.h"

namespace chimera::nn {

Region ParameterLayout::add(const std::string& name, std::initializer_list<Index> shape,
                            Parameter parameter) {
  parameter.name = name;
  parameter.region = layout.add(name, DType::F32, shape);
  parameters.push_back(parameter);
  return parameter.region;
}

}  // namespace chimera::nn
