#!/usr/bin/env bash
# The tables and figures of the Chimera paper (SC'21) beside what this program counts and simulates: writes
# FOLDER/paper.html (self-contained) and FOLDER/paper.md. Takes seconds after the build.
# Usage: scripts/reproduce_paper.sh [FOLDER]     (default: runs/paper)
# CHIMERA: the program to use; without it, BUILD_DIR (default: build) is built.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(realpath -m "${1:-$top/runs/paper}")
cd "$top"

if [[ -z ${CHIMERA:-} ]]; then
  build=${BUILD_DIR:-build}
  [[ -f $build/build.ninja ]] || cmake -S . -B "$build" -G Ninja -DCHIMERA_TESTS=OFF >&2
  cmake --build "$build" --target chimera >&2
  CHIMERA=$build/chimera
fi

"$CHIMERA" schedule paper --data scripts/paper -o "$folder"
