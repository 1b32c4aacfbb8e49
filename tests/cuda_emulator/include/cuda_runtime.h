#pragma once
// The emulator's <cuda_runtime.h>: the same names on the host. README.md says what is modelled.
#include "emulator/block.h"
#include "emulator/device_code.h"
#include "emulator/kernel.h"
#include "emulator/runtime_api.h"
#include "emulator/types.h"
