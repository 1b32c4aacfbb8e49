#!/usr/bin/env bash
# Checks and measures the GPU backend on a machine with a GPU, in under 10 minutes: the CUDA tests, the same under
# compute-sanitizer, every op against the CPU and the machine's limits, whole training steps.
#   scripts/gpu_check.sh [OUTPUT]      writes gpu_check.md, gpu_check.json and gpu_check.log there (default: $OUT, else
#                                      ./gpu_check_out); exit code 0: all passed, 1: something failed, 2: cannot start
#   scripts/gpu_check.sh --bundle      gathers what a machine without compilers, MPI and network needs into ./gpu_bundle
#                                      (below 60 MiB, ignored by git); there this script uses it, and it has a copy of it
# Options: --build DIR      use the programs of this build folder (default: gpu_bundle, else build-gpu, which is built)
#          --emulated DIR   the emulator's programs of build folder DIR in a GPU's place: shows that this script works
#          --help
# Settings: CUDA_HOME (where nvcc is), GPU_CHECK_JOBS (compilers at once), GPU_CHECK_PATIENCE (factor on time budgets).
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

bundle=$here/gpu_bundle
[ -f "$(dirname "$0")/about" ] && bundle=$(cd "$(dirname "$0")" && pwd)  # started in the bundle itself
build=
mode=gpu
making_bundle=
out=${OUT:-./gpu_check_out}
patience=${GPU_CHECK_PATIENCE:-}
jobs=${GPU_CHECK_JOBS:-$(nproc)}
# As the programs set them themselves, by starting once more: which a sanitizer or another loader may not follow.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-30000}

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
refuse() {
  echo "gpu_check.sh: $*" >&2
  exit 2
}

parse() {
  local given=
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) usage; exit 0 ;;
      --bundle) making_bundle=1 ;;
      --build | --emulated)
        [ $# -ge 2 ] || refuse "$1 needs a build folder"
        [ -d "$2" ] || refuse "$1 $2: no such folder"
        build=$(cd "$2" && pwd)
        [ "$1" = --build ] || mode=emulated
        shift ;;
      -*) refuse "unknown option $1; see --help" ;;
      *)
        [ -z "$given" ] || refuse "one output folder, not '$given' and '$1'"
        given=$1; out=$1 ;;
    esac
    shift
  done
}

# --- building -------------------------------------------------------------------------------------------------------

find_nvcc() {
  local nvcc
  for nvcc in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc)" /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc; do
    [ -x "$nvcc" ] && { echo "$nvcc"; return 0; }
  done
  return 1
}

# build_programs FOLDER CMAKE_OPTIONS...
build_programs() {
  local folder=$1 nvcc tool
  shift
  nvcc=$(find_nvcc) || refuse "there is no nvcc to build with: install the CUDA toolkit (12 or newer) and set CUDA_HOME to" \
    "its folder; or make a bundle on a machine that has one (scripts/gpu_check.sh --bundle) and bring gpu_bundle here"
  for tool in cmake g++; do
    command -v "$tool" >/dev/null || refuse "there is no $tool to build with; scripts/install_deps.sh build tests gets it on" \
      "Debian, and elsewhere a bundle serves (scripts/gpu_check.sh --bundle on another machine)"
  done
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  echo "building with $nvcc in $folder"
  cmake -S "$here" -B "$folder" "${generator[@]}" -DCHIMERA_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" -DCHIMERA_TESTS=ON \
    -DCHIMERA_BENCHMARKS=OFF "$@" >"$folder.log" 2>&1 &&
    cmake --build "$folder" -j "$jobs" --target chimera test_cuda_gpu >>"$folder.log" 2>&1 && return 0
  tail -n 25 "$folder.log" >&2
  refuse "building failed, see $folder.log; on Debian scripts/install_deps.sh build tests gets what is missing"
}

# --- the bundle -----------------------------------------------------------------------------------------------------

# What comes with CUDA or with every Linux. The latter is carried too, in a folder that is used only where the
# machine's own is too old.
is_cuda() { [[ $1 == libcu* || $1 == libnccl* || $1 == libnv* ]]; }
is_system() { [[ $1 =~ ^(libc|libm|libpthread|libdl|librt)\.so || $1 == ld-linux* ]]; }

copy_libraries() {  # INTO PROGRAM...
  local into=$1 name path folder
  shift
  while read -r name path; do
    is_cuda "$name" && continue
    folder=lib
    is_system "$name" && folder=lib_system
    cp -L "$path" "$into/$folder/$name"
    strip --strip-unneeded "$into/$folder/$name" 2>/dev/null
  done < <(ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $1 ~ /^\/.*ld-linux/ { sub(/.*\//, "", $1); print $1, "/lib64/" $1 }' | sort -u)
}

make_bundle() {
  local folder=$here/build-gpu-bundle golden=${CHIMERA_GOLDEN:-$here/../shared/golden} parts=$work/parts size
  "$here/scripts/install_deps.sh" cuda ||
    echo "without the headers of cudnn-frontend: attention will be our own kernels' alone" >&2
  build_programs "$folder" -DCHIMERA_MPI=OFF -DCHIMERA_NCCL=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=90
  mkdir -p "$parts/lib" "$parts/lib_system"
  cp "$folder/chimera" "$folder/tests/cuda/test_cuda_gpu" "$parts/"
  strip "$parts/chimera" "$parts/test_cuda_gpu"
  copy_libraries "$parts" "$parts/chimera" "$parts/test_cuda_gpu"
  if ! [ -f "$golden/ops.safetensors" ]; then
    echo "no golden files in $golden (CHIMERA_GOLDEN names them): the tests will use the small ones of tests/golden"
    golden=$here/tests/golden/fixture
  fi
  mkdir "$parts/golden"
  cp -r "$golden/ops.safetensors" "$golden/tied" "$golden/untied" "$parts/golden/"
  chmod -R u+w "$parts"
  rm -rf "$bundle"
  mkdir -p "$bundle"
  tar -C "$parts" -czf "$bundle/programs.tar.gz" . || refuse "cannot write $bundle/programs.tar.gz"
  cp "$here/scripts/gpu_check.sh" "$bundle/"
  {
    echo "commit=$(commit)"
    echo "cuda=$("$(find_nvcc)" --version | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')"
    echo "architectures=90"
    echo "attention=$(sed -n 's/^-- Attention: //p' "$folder.log" | head -n 1)"
  } >"$bundle/about"
  size=$(du -sm "$bundle" | cut -f1)
  echo "$bundle: $size MiB, $(paste -sd ';' "$bundle/about")"
  [ "$size" -lt 60 ] || refuse "the bundle has $size MiB; it should stay below 60"
}

about() { sed -n "s/^$1=//p" "$bundle/about" 2>/dev/null; }

commit() {
  local hash changes=
  if ! hash=$(git -C "$here" rev-parse --short=12 HEAD 2>/dev/null); then
    hash=$(about commit)
    echo "${hash:-unknown}"
    return
  fi
  [ -z "$(git -C "$here" status --porcelain --untracked-files=no 2>/dev/null)" ] || changes=" with changes"
  echo "$hash$changes"
}

# --- programs and their libraries -----------------------------------------------------------------------------------

program='' tests='' golden='' work='' parts='' runner=()

both_there() { [ -x "$program" ] && [ -x "$tests" ]; }

choose_programs() {
  if [ "$mode" = emulated ]; then
    program=$build/tests/cuda/chimera_emulated tests=$build/tests/cuda/test_cuda
    both_there || refuse "$build/tests/cuda has no chimera_emulated and test_cuda; build these and test_cuda_training"
  elif [ -n "$build" ]; then
    program=$build/chimera tests=$build/tests/cuda/test_cuda_gpu
    both_there || refuse "$build has no chimera and tests/cuda/test_cuda_gpu; configure with" \
      "-DCHIMERA_CUDA=ON -DCHIMERA_TESTS=ON and build these two"
  elif [ -f "$bundle/programs.tar.gz" ]; then
    parts=$work/bundle
    mkdir "$parts"
    tar -C "$parts" -xzf "$bundle/programs.tar.gz" ||
      refuse "cannot unpack $bundle/programs.tar.gz into $parts; set TMPDIR to a folder with 100 MB of room"
    program=$parts/chimera tests=$parts/test_cuda_gpu golden=$parts/golden
    export LD_LIBRARY_PATH=$parts/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  else
    build=$here/build-gpu
    build_programs "$build" -DCMAKE_CUDA_ARCHITECTURES=native
    program=$build/chimera tests=$build/tests/cuda/test_cuda_gpu
  fi
  [ -n "$golden" ] || golden=$here/../shared/golden
  [ -n "${CHIMERA_GOLDEN:-}" ] || ! [ -d "$golden" ] || export CHIMERA_GOLDEN=$golden
}

# Folders where CUDA's libraries may be, also those that Python packages bring.
library_folders() {
  local folder
  for folder in ${CUDA_HOME:+"$CUDA_HOME/lib64" "$CUDA_HOME/lib"} /usr/local/cuda*/lib64 /usr/local/cuda*/lib \
    /usr/local/cuda*/targets/*/lib /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /opt/cuda/lib64 /opt/conda/lib; do
    [ -d "$folder" ] && echo "$folder"
  done
  local python
  for python in python3 /opt/*/bin/python3 /opt/*/.venv/bin/python3; do
    command -v "$python" >/dev/null || continue
    timeout 10 "$python" -c 'import sys
for p in sys.path: print(p)' 2>/dev/null
  done | sort -u | while read -r folder; do
    for folder in "$folder"/nvidia/*/lib "$folder"/torch/lib; do [ -d "$folder" ] && echo "$folder"; done
  done
}

missing_libraries() { ldd "$program" "$tests" 2>/dev/null | awk '/not found/ && !/version/ { print $1 }' | sort -u; }

# Adds the folder of each library that the loader does not find, and of those that are looked for when they are used.
find_libraries() {
  local folders name folder problem=
  [ "$mode" = gpu ] || return 0
  folders=$(library_folders)
  for name in $(missing_libraries) libcudnn.so.9; do
    [ "$name" = libcudnn.so.9 ] && command -v ldconfig >/dev/null && ldconfig -p 2>/dev/null | grep -q libcudnn.so.9 && continue
    while read -r folder; do
      [ -e "$folder/$name" ] || continue
      export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
      break
    done <<<"$folders"
  done
  for name in $(missing_libraries); do
    problem+=" $name"
  done
  [ -z "$problem" ] && return 0
  local other
  other=$(while read -r folder; do find "$folder" -maxdepth 1 -name 'libcublasLt.so.1[0-9]' 2>/dev/null; done <<<"$folders" | head -n 1)
  echo "gpu_check.sh: not found:$problem. Looked in LD_LIBRARY_PATH, the loader's folders and:" >&2
  while read -r folder; do echo "  $folder" >&2; done <<<"$folders"
  if [[ $problem == *libcublasLt* && -n $other ]]; then
    echo "This machine has $other, another release of CUDA than these programs were built with ($(about cuda))." >&2
    if [ -z "$build" ] && find_nvcc >/dev/null; then
      echo "There is an nvcc here: building from source instead." >&2
      build=$here/build-gpu
      unset LD_LIBRARY_PATH
      build_programs "$build" -DCMAKE_CUDA_ARCHITECTURES=native
      program=$build/chimera tests=$build/tests/cuda/test_cuda_gpu
      return 0
    fi
    refuse "make the bundle with that release (CUDA_HOME=... scripts/gpu_check.sh --bundle), or install these libraries"
  fi
  refuse "install them (cuBLAS comes with CUDA), or add their folder to LD_LIBRARY_PATH"
}

# A C library older than the programs' own: the bundle's takes its place.
choose_loader() {
  local said loader
  said=$("$program" --version 2>&1) && return 0
  loader=$(echo "$parts"/lib_system/ld-linux*)
  if [[ $said == *GLIBC* && -x $loader ]]; then
    runner=("$loader" --library-path "$parts/lib_system:$LD_LIBRARY_PATH")
    said=$("${runner[@]}" "$program" --version 2>&1) && return 0
  fi
  refuse "$program does not start: $said"
}

# --- parts ----------------------------------------------------------------------------------------------------------

failed=0
part_names=() part_results=() part_seconds=() part_notes=()

note() {  # NAME RESULT SECONDS NOTE
  part_names+=("$1") part_results+=("$2") part_seconds+=("$3") part_notes+=("$4")
  printf '%-28s %-12s %4s s  %s\n' "$1" "$2" "$3" "$4"
  [[ $2 == passed || $2 == skipped ]] || failed=1
}

# part NAME BUDGET_SECONDS OUTPUT COMMAND...: OUTPUT gets what it prints (-: the log alone).
part() {
  local name=$1 budget to=$3 start=$SECONDS rc text
  budget=$(awk -v s="$2" -v p="$patience" 'BEGIN { print s * p }')
  shift 3
  text=$(mktemp)
  timeout --kill-after=5 "$budget" "$@" >"$text" 2>"$text.err"
  rc=$?
  { printf '\n== %s: %s\n' "$name" "$*"; cat "$text" "$text.err"; } >>"$out/gpu_check.log"
  [ "$to" = - ] || cp "$text" "$to"
  local last said=("$text")
  [ "$rc" = 0 ] || said+=("$text.err")
  last=$(cat "${said[@]}" | sed '/^[=[:space:]]*$/d' | tail -n 1 | tr -d '\000-\037' | cut -c1-160)
  rm -f "$text" "$text.err"
  case $rc in
    0) note "$name" passed $((SECONDS - start)) "$last" ;;
    124 | 137) note "$name" "out of time" $((SECONDS - start)) "budget $budget s; the others go on; last line: $last" ;;
    *) note "$name" failed $((SECONDS - start)) "exit code $rc: $last" ;;
  esac
  return $rc
}

tests_parts() {
  part "tests of ops" 70 - "${runner[@]}" "$tests" "~gpu training*"
  local training=$tests
  [ "$mode" = gpu ] || training=${tests}_training
  part "tests of training" 60 - "${runner[@]}" "$training" "gpu training*"
}

# Our kernels under each tool. Products are the library's: its own kernels would take the time, and what it reads of
# its workspace is no finding. Refused calls are what some tests ask for.
sanitizer_parts() {
  local sanitizer='' tool place
  if [ "$mode" = emulated ]; then
    note "compute-sanitizer" skipped 0 "the emulator has its own checks"
    return
  fi
  for place in "$(command -v compute-sanitizer)" ${CUDA_HOME:+"$CUDA_HOME/bin/compute-sanitizer"} \
    /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
    [ -x "$place" ] && sanitizer=$place && break
  done
  if [ -z "$sanitizer" ]; then
    note "compute-sanitizer" skipped 0 "not found; it comes with the CUDA toolkit: add its folder to PATH"
    return
  fi
  for tool in memcheck racecheck synccheck initcheck; do
    part "compute-sanitizer $tool" 40 - "$sanitizer" --tool "$tool" --error-exitcode 99 --report-api-errors no --target-processes all \
      "${runner[@]}" "$tests" "~matmul*" "~cuda device*" "~golden*" "~gpu training*" "~cudnn*" "~*more samples than a grid*"
  done
}

bench_parts() {
  local shapes=(all)
  [ "$mode" = gpu ] || shapes=(tiny --rounds 1)
  part "ops, bf16" 110 "$work/ops.md" "${runner[@]}" "$program" bench gpu ops "${shapes[@]}" --type bf16 --json "$work/ops.json"
  [ "$mode" = gpu ] && shapes=(gpt2-124m)
  part "ops, fp32" 30 "$work/ops_fp32.md" "${runner[@]}" "$program" bench gpu ops "${shapes[@]}" --type fp32 --json "$work/ops_fp32.json"
  shapes=(all)
  [ "$mode" = gpu ] || shapes=(tiny --steps 2 --micro-batch 2)
  part "training steps" 120 "$work/steps.md" "${runner[@]}" "$program" bench gpu step "${shapes[@]}" --json "$work/steps.json"
}

# --- report ---------------------------------------------------------------------------------------------------------

json_text() {
  local s=${1//\\/\\\\}
  s=${s//\"/\\\"}
  printf '"%s"' "$(tr '\n\t' '  ' <<<"$s" | tr -d '\000-\037' | sed 's/ *$//')"
}

card() {
  if [ "$mode" = emulated ]; then
    echo "no GPU: the emulator of tests/cuda_emulator"
  else
    local cards
    cards=$(timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | sort | uniq -c |
      sed 's/^ *//' | paste -sd ';')
    echo "${cards:-unknown: nvidia-smi is not there, or says nothing}"
  fi
}

write_report() {
  local i word=passed when
  [ "$failed" = 0 ] || word=failed
  when=$(date -u +%Y-%m-%dT%H:%MZ)
  {
    printf '# GPU check: %s\n\n%s, commit %s\n%s\n\n' "$word" "$when" "$(commit)" "$(card)"
    printf '| part | result | seconds | last line |\n|---|---|---:|---|\n'
    for i in "${!part_names[@]}"; do
      printf '| %s | %s | %s | %s |\n' "${part_names[i]}" "${part_results[i]}" "${part_seconds[i]}" "${part_notes[i]//|/\\|}"
    done
    local text
    for text in info steps ops ops_fp32; do
      [ -s "$work/$text.md" ] || continue
      case $text in
        info) printf '\n## Machine\n\n```text\n'; cat "$work/$text.md"; printf '```\n' ;;
        steps) printf '\n## Training steps\n'; cat "$work/$text.md" ;;
        ops) printf '\n## Ops\n'; cat "$work/$text.md" ;;
        ops_fp32) cat "$work/$text.md" ;;
      esac
    done
  } >"$out/gpu_check.md"
  {
    printf '{"result": "%s", "time": "%s", "commit": %s, "card": %s,\n "parts": [' "$word" "$when" "$(json_text "$(commit)")" \
      "$(json_text "$(card)")"
    for i in "${!part_names[@]}"; do
      [ "$i" = 0 ] || printf ','
      printf '\n  {"part": %s, "result": %s, "seconds": %s, "note": %s}' "$(json_text "${part_names[i]}")" \
        "$(json_text "${part_results[i]}")" "${part_seconds[i]}" "$(json_text "${part_notes[i]}")"
    done
    printf ']'
    for text in steps ops ops_fp32; do
      [ -s "$work/$text.json" ] && printf ',\n "%s": %s' "$text" "$(cat "$work/$text.json")"
    done
    printf '}\n'
  } >"$out/gpu_check.json"
}

main() {
  parse "$@"
  if [ -z "$patience" ]; then
    patience=1
    [ "$mode" = gpu ] || patience=5  # budgets are a GPU's
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if [ -n "$making_bundle" ]; then
    make_bundle
    exit 0
  fi
  choose_programs
  find_libraries
  choose_loader
  mkdir -p "$out" 2>/dev/null
  [ -w "$out" ] || refuse "cannot write to $out; name another folder"
  : >"$out/gpu_check.log"
  part "what is here" 30 "$work/info.md" "${runner[@]}" "$program" info
  local problem
  problem=$(sed -n 's/^gpu  *none: //p' "$work/info.md" 2>/dev/null)
  if [ -n "$problem" ]; then
    note "a GPU" failed 0 "$problem"
  else
    tests_parts
    bench_parts
    sanitizer_parts
  fi
  write_report
  echo "report: $out/gpu_check.md, $out/gpu_check.json, $out/gpu_check.log"
  exit "$failed"
}

main "$@"
