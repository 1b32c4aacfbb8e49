#!/usr/bin/env bash
# Builds the unit tests with sanitizers and runs them: scripts/sanitize.sh address,undefined | thread
# One thread per team: libgomp's synchronisation is unknown to the thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:?which sanitizers: address,undefined or thread}
filter='~[slow]~[no-sanitizer]'
case $kind in
  address*) preset=asan build=build-address
            targets=(test_unit_base test_unit_tokenizer test_unit_data test_unit_checkpoint test_unit_train test_kernels
                     test_nn test_schedule test_comm test_comm_copies test_fuzz test_cuda_emulator test_cuda_comm) ;;
  # [races]: programs that are wrong on purpose; tests of this kind have them in child processes.
  thread) preset=tsan build=build-thread
          targets=(test_parallel test_comm test_comm_copies test_cuda_emulator test_cuda_comm); filter+='~[races]' ;;
  *) echo "sanitize.sh: unknown sanitizers '$kind'" >&2; exit 2 ;;
esac
cmake --preset "$preset" >/dev/null  # without CUDA: its sources are the emulator's here
cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=suppressions=$PWD/scripts/tsan.supp

run() {  # one executable; what it says is printed at its end
  local cases=$filter said rc=0
  # These send the messages of other cases once more, with other elements, or between other layouts.
  [ "$build/$1" != build-thread/test_parallel ] || cases+='~"in 16 bits *"~"resume: every ordered pair *"'
  said=$(cd "$build/tests" && "./$1" "$cases" 2>&1) || rc=$?
  printf -- '-- %s\n%s\n' "$1" "$said"
  return $rc
}
export -f run
export build filter
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run {}'
