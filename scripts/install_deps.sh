#!/usr/bin/env bash
# Installs the Debian packages that Chimera needs: scripts/install_deps.sh [build] [tests] [quickstart] [cuda] (default: build).
# As root or with sudo; otherwise prints the exact command and stops. Does nothing when all are there.
# cuda: no package, but the headers of cudnn-frontend (from PyPI's wheel) under CHIMERA_DEPS (default ~/.cache/chimera).
set -euo pipefail

build=(g++ mold cmake ninja-build pkg-config libdnnl-dev mpich libmpich-dev nlohmann-json3-dev libspdlog-dev
       libcli11-dev libzstd-dev zlib1g-dev libxxhash-dev)
tests=(catch2 python3 xz-utils zstd)
quickstart=(bible-kjv jargon-text xz-utils)

cudnn_frontend=1.32.0
get_cudnn_frontend() {
  local folder=${CHIMERA_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/chimera}/cudnn-frontend work
  [ -f "$folder/include/cudnn_frontend.h" ] && return
  work=$(mktemp -d)
  echo "Getting: the headers of cudnn-frontend $cudnn_frontend into $folder"
  python3 -m pip download -q --no-deps -d "$work" "nvidia-cudnn-frontend==$cudnn_frontend"
  python3 -m zipfile -e "$work"/*.whl "$work/wheel"
  mkdir -p "$folder"
  cp -r "$work"/wheel/include "$work"/wheel/*.dist-info/licenses "$folder"
  rm -r "$work"
}

wanted=()
for part in "${@:-build}"; do
  case $part in
    build) wanted+=("${build[@]}") ;;
    tests) wanted+=("${tests[@]}") ;;
    quickstart) wanted+=("${quickstart[@]}") ;;
    cuda) get_cudnn_frontend ;;
    *) echo "install_deps.sh: unknown part '$part'; known: build tests quickstart cuda" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian or a relative. Install the equivalents of: ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" -eq 0 ]; then
  as_root=(env DEBIAN_FRONTEND=noninteractive)
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
else
  echo "Missing packages: ${missing[*]}" >&2
  echo "Install them and run this again:" >&2
  echo "  sudo apt-get update && sudo ${install[*]}" >&2
  exit 1
fi
echo "Installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" "${install[@]}" -qq >/dev/null
