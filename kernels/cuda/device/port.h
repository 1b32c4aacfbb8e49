#pragma once
// The one door to CUDA for the files of this folder, on a GPU (nvcc) and on the host emulator
// (tests/cuda_emulator, whose headers of the same names come first in the include path).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include "launch.h"

// Declares `type* name`, the block's dynamic shared memory (the `shared_bytes` of launch()),
// aligned to 128 bytes. Once per kernel; its contents are undefined.
#ifndef CHIMERA_DYNAMIC_SHARED
#define CHIMERA_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char chimera_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(chimera_dynamic_shared)
#endif
