#!/usr/bin/env bash
# Builds Chimera and runs all its tests: scripts/test.sh [ctest arguments], such as -R tokenizer.
# BUILD_DIR (default build) is where it builds; CHIMERA_GOLDEN, when set, the folder of PyTorch reference values.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_deps.sh build tests
build=${BUILD_DIR:-build}
jobs=$(nproc)
cmake -S . -B "$build" -G Ninja -DCHIMERA_TESTS=ON | sed -n 's/^-- \(GPU backend\)/\1/p'
cmake --build "$build" -j "$jobs"
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" "$@"
