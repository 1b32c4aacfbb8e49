#!/usr/bin/env bash
# What is checked of files as files: every file is named in the README of its folder (or of the nearest folder above that
# has one), test files are called NAME_test.cpp, C++ is formatted as .clang-format says. Prints what is wrong.
#   scripts/check_files.sh [names] [format]      (default: both; format needs clang-format 14, Debian 12's)
# A README names a file in code, by its name, its name without the ending, or a pattern such as `bad_*_test.cpp`.
set -euo pipefail
cd "$(dirname "$0")/.."
problems=0
problem() {
  echo "$*"
  problems=$((problems + 1))
}

# The words in code of a README, one a line: `a.h`, `b.{h,cpp}` gives b, and what stands in blocks.
code_words() {
  awk '/^ *```/ { block = !block; next }
       block { print; next }
       { n = split($0, part, "`"); for (i = 2; i <= n; i += 2) print part[i] }' "$1" |
    sed 's/\.{[^}]*}//g' | tr -c 'A-Za-z0-9_.*/\n-' '\n' | sed 's|.*/\(.\)|\1|; s/[.]$//' | sort -u
}

check_names() {
  local file folder readme name stem word known
  declare -A words=()   # of a README, each between blanks
  while read -r file; do
    folder=$(dirname "$file")
    while ! [ -f "$folder/README.md" ] && [ "$folder" != . ]; do folder=$(dirname "$folder"); done
    readme=$folder/README.md
    if [ "$folder" = . ]; then
      problem "$(dirname "$file") has no README that could name $(basename "$file")"
      continue
    fi
    [ -n "${words[$readme]:-}" ] || words[$readme]=" $(code_words "$readme" | tr '\n' ' ')"
    name=$(basename "$file")
    stem=${name%%.*}
    [[ ${words[$readme]} == *" $name "* || ${words[$readme]} == *" $stem "* || ${words[$readme]} == *" ${stem%_test} "* ]] && continue
    known=
    for word in ${words[$readme]}; do
      # shellcheck disable=SC2053  # a pattern is what is wanted
      [[ $word == ?*'*'* && $name == $word ]] && known=1 && break
    done
    [ -n "$known" ] || problem "$readme does not name $file"
  done < <(git ls-files -- src include/chimera kernels tests scripts configs |
           grep -vE '(README\.md|CMakeLists\.txt|^src/main\.cpp)$|/fixture/|^tests/cuda_emulator/include/')
  while read -r file; do
    [[ $file == *_test.cpp ]] || problem "$file has test cases: its name should end in _test.cpp"
  done < <(git grep -lE '^(TEST_CASE|SCENARIO|TEMPLATE_TEST_CASE)\(' -- 'tests/*.cpp')
}

check_format() {
  local formatter=clang-format file
  command -v clang-format-14 >/dev/null && formatter=clang-format-14
  if ! "$formatter" --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "check_files.sh: clang-format 14 is not here; on Debian 12: apt-get install clang-format" >&2
    exit 2
  fi
  while read -r file; do
    "$formatter" --dry-run --Werror "$file" 2>/dev/null || problem "$file is not formatted: $formatter -i $file"
  done < <(git ls-files -- '*.h' '*.cpp' '*.cu' '*.cuh')
}

[ $# -gt 0 ] || set -- names format
for part in "$@"; do
  case $part in
    names) check_names ;;
    format) check_format ;;
    *) echo "check_files.sh: unknown part '$part'; known: names format" >&2; exit 2 ;;
  esac
done
if [ "$problems" -gt 0 ]; then
  echo "$problems to put right"
  exit 1
fi
