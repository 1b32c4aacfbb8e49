#pragma once
#include "kernel_support.h"

namespace chimera::test {

// The results of every op but matmul at odd sizes, for comparing bits.
Floats every_op(Ops& ops);

}  // namespace chimera::test
