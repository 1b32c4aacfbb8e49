#!/usr/bin/env bash
# Every source file of the product compiles by itself: builds compile the files of a folder as one (CHIMERA_UNITY), which
# would hide a missing include. Reads them only, writes no objects.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${ALONE_DIR:-build-alone}
cmake -S . -B "$build" -G Ninja -DCHIMERA_UNITY=OFF -DCHIMERA_TESTS=OFF -DCHIMERA_BENCHMARKS=OFF -DCHIMERA_CUDA=OFF \
  -DCMAKE_BUILD_TYPE=SyntaxOnly -DCMAKE_CXX_FLAGS_SYNTAXONLY=-fsyntax-only >/dev/null
ninja -C "$build" -t targets all | sed -n 's/: CXX_COMPILER.*//p' | grep -vE 'chimera_cpu_avx' | xargs ninja -C "$build" -k 0
