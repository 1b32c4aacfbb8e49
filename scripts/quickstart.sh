#!/usr/bin/env bash
# From text to a trained GPT-2 that writes text: scripts/quickstart.sh [TEXT...]
# Without texts: the King James Bible and the Jargon File, from Debian packages. Everything lands in runs/quickstart;
# run again, it continues where it stopped. QUICKSTART_SHORT=1: a small text and few steps, to see that all works.
# QUICKSTART_DIR (default runs/quickstart) and BUILD_DIR (default build) choose other places.
set -euo pipefail
given=()
for text in "$@"; do
  if ! [ -f "$text" ] || ! [ -r "$text" ]; then
    echo "quickstart.sh: $text is not a readable file" >&2
    exit 2
  fi
  given+=("$(realpath "$text")")
done
set -- ${given[@]+"${given[@]}"}
cd "$(dirname "$0")/.."

run=${QUICKSTART_DIR:-runs/quickstart${QUICKSTART_SHORT:+-short}}
build=${BUILD_DIR:-build}
held_out=0.05

say() { printf '\n== %s\n' "$*"; }

install_and_build() {
  say "1/6 packages and build"
  local parts=(build)
  [ $# -gt 0 ] || parts+=(quickstart)
  scripts/install_deps.sh "${parts[@]}"
  command -v xz >/dev/null || scripts/install_deps.sh quickstart
  cmake -S . -B "$build" -G Ninja -DCHIMERA_TESTS=OFF | sed -n 's/^-- \(GPU backend\)/\1/p'
  cmake --build "$build" --target chimera -j "$(nproc)"
}

# The Jargon File, also where documentation folders are not installed: it is in the package itself.
jargon() {
  local file=/usr/share/doc/jargon-text/jargon.txt.gz
  if [ -f "$file" ]; then
    gzip -dc "$file"
    return
  fi
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && apt-get download -qq jargon-text >/dev/null && dpkg-deb -x jargon-text_*.deb .)
  find "$folder" -name 'jargon.txt.gz' -exec gzip -dc {} +
  rm -rf "$folder"
}

# A run belongs to its texts: with others, what is "already there" would be wrong.
check_inputs() {
  local inputs
  inputs=$(echo "short=${QUICKSTART_SHORT:-}"; [ $# -eq 0 ] || cksum "$@")
  mkdir -p "$run"
  if [ -f "$run/inputs" ] && [ "$inputs" != "$(cat "$run/inputs")" ]; then
    echo "$run was made from other texts; set QUICKSTART_DIR to another folder, or remove it" >&2
    exit 2
  fi
  printf '%s\n' "$inputs" >"$run/inputs"
}

gather_texts() {
  say "2/6 texts"
  mkdir -p "$run/text"
  if [ $# -gt 0 ]; then
    texts=("$@")
  else
    # Verse names ("Genesis 1:1 ") would be easy to predict: they are taken off.
    [ -s "$run/text/bible.txt" ] || { bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"$run/text/bible.tmp"; mv "$run/text/bible.tmp" "$run/text/bible.txt"; }
    [ -s "$run/text/jargon.txt" ] || { jargon >"$run/text/jargon.tmp"; mv "$run/text/jargon.tmp" "$run/text/jargon.txt"; }
    texts=("$run/text/bible.txt" "$run/text/jargon.txt")
    if [ -n "${QUICKSTART_SHORT:-}" ]; then
      head -c 300000 "$run/text/bible.txt" >"$run/text/short.txt"
      texts=("$run/text/short.txt")
    fi
  fi
  wc -c "${texts[@]}"
}

# The tokenizer sees the training part alone: what is held out must be new to it, too.
train_tokenizer() {
  say "3/6 tokenizer: byte-level BPE, 4096 tokens"
  [ -f "$run/tokenizer/merges.txt" ] && { echo "already there: $run/tokenizer"; return; }
  local heads=() i=0 text
  mkdir -p "$run/text/training"
  for text in "${texts[@]}"; do
    i=$((i + 1))
    head -c "$(($(wc -c <"$text") * 94 / 100))" "$text" >"$run/text/training/$i.txt"
    heads+=("$run/text/training/$i.txt")
  done
  "$build/chimera" tokenizer train --vocab-size 4096 --output "$run/tokenizer" "${heads[@]}"
}

prepare_data() {
  say "4/6 token shards, the last 5 % of each text held out"
  if [ -f "$run/data/dataset.json" ]; then
    echo "already there: $run/data"
  else
    "$build/chimera" data prepare --tokenizer "$run/tokenizer" --output "$run/data" \
      --validation-fraction "$held_out" --write-text "$run/text/split" "${texts[@]}"
  fi
}

train_model() {
  say "5/6 training: Chimera, four pipeline stages, four workers (Ctrl-C stops it with a checkpoint)"
  settings=(--set "data.train=$run/data/train-*.bin" --set "data.validation=$run/data/val-*.bin"
            --set "data.tokenizer=$run/tokenizer" --set "checkpoint.directory=$run/checkpoints" --set "log.directory=$run")
  if [ -n "${QUICKSTART_SHORT:-}" ]; then
    settings+=(--set train.steps=150 --set train.eval_every=50 --set lr_schedule.warmup_steps=20 --set train.log_every=25)
  fi
  "$build/chimera" train configs/quickstart.json "${settings[@]}"
}

# Bits per byte on the held-out text, beside what xz adds to its archive of the training text for it.
verdict() {
  say "6/6 what it learned"
  "$build/chimera" eval --checkpoint "$run/checkpoints" --data "$run/data/val-*.bin" | tee "$run/eval.txt"
  local model train_size both_size held
  model=$(awk '$1 == "bits/byte" {print $2}' "$run/eval.txt")
  train_size=$(xz -9e -c "$run/text/split/train.txt" | wc -c)
  both_size=$(cat "$run/text/split/train.txt" "$run/text/split/val.txt" | xz -9e -c | wc -c)
  held=$(wc -c <"$run/text/split/val.txt")
  awk -v model="$model" -v bytes=$((both_size - train_size)) -v held="$held" 'BEGIN {
    xz = 8 * bytes / held
    printf "\nOn the held-out text (%d bytes): the model needs %.3f bits per byte, xz -9e %.3f: %s.\n",
           held, model, xz, model < xz ? "the model wins" : "xz wins"
  }'
  say "samples"
  "$build/chimera" generate --checkpoint "$run/checkpoints" --prompt "In the beginning" --max-tokens 100 --seed 1
  echo
  "$build/chimera" generate --checkpoint "$run/checkpoints" --prompt "A hacker is" --max-tokens 100 --seed 2
  cat <<EOF

Checkpoints   $run/checkpoints   (model-*.safetensors, config.json and tokenizer/ inside)
Metrics       $run/metrics.jsonl
Tokenizer     $run/tokenizer
Token shards  $run/data

Try next:
  $build/chimera generate --checkpoint $run/checkpoints --prompt 'And the king said' --temperature 0.7
  $build/chimera schedule show --schedule chimera -D 4 -N 8
  $build/chimera train configs/quickstart.json $(printf '%q ' "${settings[@]}")--set parallel.schedule=1f1b \\
    --set checkpoint.directory=$run-1f1b/checkpoints --set log.directory=$run-1f1b
EOF
}

texts=()
settings=()
check_inputs "$@"
install_and_build "$@"
gather_texts "$@"
train_tokenizer
prepare_data
train_model
verdict
