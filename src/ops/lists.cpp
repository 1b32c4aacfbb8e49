// Ops over lists of tensors: the optimizer's step and the gradient norm.
#include <cmath>

#include "checks.h"

namespace chimera {

using namespace contract;

AdamWNumbers contract::adamw_numbers(const AdamWTensor& x, const AdamWStep& step) {
  const Index size = x.param.size();
  for (const Tensor* t : {&x.param, &x.m, &x.v, &x.grad}) check_size("adamw", "a tensor", *t, size);
  ENSURE(x.weight.empty() || (is_half(x.weight.type()) && x.weight.size() == size),
         "adamw: weight is ", to_string(x.weight.type()), " ", x.weight.shape_text(), "; ", size,
         " numbers of BF16 or F16 are needed");
  ENSURE(step.t >= 1, "adamw: step ", step.t, "; steps count from 1");
  ENSURE(x.order >= 0 && x.order < Index{1} << 31 && x.first >= 0 &&
             checked_add(x.first, size) <= Index{1} << 34,
         "adamw: elements ", x.first, " to ", x.first + size, " of parameter ", x.order,
         "; random numbers are there for 2^34 of each of 2^31");
  const auto correction = [&](float beta) {
    return static_cast<float>(
        1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step.t))));
  };
  return {x.rate,
          static_cast<float>(1 - static_cast<double>(x.rate) * static_cast<double>(x.decay)),
          step.beta1,
          step.beta2,
          step.grad_scale,
          correction(step.beta1),
          correction(step.beta2),
          step.epsilon};
}

void Ops::adamw(std::span<const AdamWTensor> tensors, const AdamWStep& step) {
  for (const AdamWTensor& x : tensors) adamw_numbers(x, step);  // checks
  std::vector<AdamWTensor> list(tensors.begin(), tensors.end());
  std::vector<Operand> operands;
  for (AdamWTensor& x : list)
    for (Tensor* t : {&x.param, &x.m, &x.v, &x.grad, &x.weight}) operands.push_back(native(*t));
  run("adamw", Operands(operands), [&] { do_adamw(list, step); });
}

void Ops::sum_squares(std::span<double> sums, std::span<const Tensor> tensors) {
  ENSURE(sums.size() == tensors.size(), "sum_squares: ", sums.size(), " sums of ", tensors.size(),
         " tensors");
  for (const Tensor& x : tensors) check_size("sum_squares", "x", x, x.size());
  std::vector<Tensor> list(tensors.begin(), tensors.end());
  std::vector<Operand> operands;
  for (Tensor& t : list) operands.push_back(native(t));
  run("gradient norm", Operands(operands), [&] { do_sum_squares(sums, list); });
}

}  // namespace chimera
