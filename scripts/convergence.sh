#!/usr/bin/env bash
# What staleness does: trains the quickstart's model (untied embeddings, no clipping, so that all can) under every
# schedule on the same samples in the same order, and draws the loss curves on one page.
#   scripts/convergence.sh [OUTPUT]     (default runs/convergence; needs the data of scripts/quickstart.sh)
# CONVERGENCE_STEPS (default 400) and BUILD_DIR (default build), QUICKSTART_DIR (default runs/quickstart) choose others.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/convergence}
steps=${CONVERGENCE_STEPS:-400}
build=${BUILD_DIR:-build}
quickstart=${QUICKSTART_DIR:-runs/quickstart}
if ! [ -f "$quickstart/data/dataset.json" ]; then
  echo "convergence.sh: $quickstart/data has no token shards; run scripts/quickstart.sh first, or set QUICKSTART_DIR" >&2
  exit 2
fi
if ! [ -x "$build/chimera" ]; then
  echo "convergence.sh: $build/chimera is not built; run scripts/quickstart.sh first, or set BUILD_DIR" >&2
  exit 2
fi

# Name, then settings. Every run sees 8 sequences per step, the same ones.
runs=(
  "serial       schedule=1f1b depth=1 micro_batches=4 micro_batch_size=2"
  "gpipe        schedule=gpipe"
  "1f1b         schedule=1f1b"
  "gems         schedule=gems"
  "chimera      schedule=chimera"
  "doubling     schedule=chimera scaling=doubling"
  "chimera-split schedule=chimera split_backward=true"
  "chimera-overlapping schedule=chimera split_backward=true overlap_steps=true"
  "interleaved  schedule=interleaved depth=2 virtual_stages=2"
  "zb-h1        schedule=zb-h1"
  "pipedream-2bw schedule=pipedream-2bw"
  "pipedream    schedule=pipedream micro_batches=1 micro_batch_size=8"
)

train() {
  local name=$1 setting settings=()
  shift
  for setting in depth=4 micro_batches=4 micro_batch_size=2 "$@"; do settings+=(--set "parallel.$setting"); done
  "$build/chimera" train configs/quickstart.json --set "data.train=$quickstart/data/train-*.bin" \
    --set "data.validation=[]" --set data.tokenizer= --set model.tied_embeddings=false --set optimizer.grad_clip=0 \
    --set "train.steps=$steps" --set train.eval_every=0 --set train.log_every=1 --set lr_schedule.warmup_steps=50 \
    --set optimizer.learning_rate=1e-3 --set checkpoint.directory= --set "log.directory=$out/$name" "${settings[@]}" \
    >"$out/$name.log" 2>&1 || { cat "$out/$name.log" >&2; exit 1; }
}

# name step loss, the loss averaged over twenty steps.
curves() {
  local line name
  for line in "${runs[@]}"; do
    read -r name _ <<<"$line"
    sed -n 's/.*"step":\([0-9]*\).*"loss":\([0-9.e+-]*\).*/\1 \2/p' "$out/$name/metrics.jsonl" |
      awk -v name="$name" '{ sum += $2; n++ } n == 20 { print name, $1, sum / n; sum = n = 0 }'
  done
}

page() {
  awk -v steps="$steps" '
    { if (!($1 in seen)) { seen[$1] = ++count; names[count] = $1 }
      x[$1] = x[$1] " " $2; y[$1] = y[$1] " " $3; last[$1] = $3
      if (top == "" || $3 > top) top = $3; if (low == "" || $3 < low) low = $3
      loss[$1, $2] = $3; at[$2] = 1 }
    END {
      print "<!doctype html><meta charset=\"utf-8\"><title>Loss under every schedule</title>"
      print "<style>body{font:15px sans-serif;max-width:60em;margin:2em auto}td,th{padding:.2em .8em;text-align:right}</style>"
      print "<h1>Training loss under every schedule</h1><p>The same model, samples and learning rates; means over 20 steps. "
      print "Synchronous schedules differ by rounding alone and coincide; pipedream and pipedream-2bw work on stale weights.</p>"
      print "<svg viewBox=\"0 0 900 480\" font-family=\"sans-serif\" font-size=\"13\"><rect width=\"900\" height=\"480\" fill=\"#fff\"/>"
      for (i = 0; i <= 5; i++) { v = low + (top - low) * i / 5; py = 440 - 400 * i / 5
        printf "<line x1=\"60\" x2=\"720\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"52\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", py, py, py + 4, v
        printf "<text x=\"%.1f\" y=\"462\" text-anchor=\"middle\">%d</text>\n", 60 + 660 * i / 5, steps * i / 5 }
      for (c = 1; c <= count; c++) { n = names[c]; split(x[n], xs, " "); k = split(y[n], ys, " "); points = ""
        for (i = 1; i <= k; i++) points = points sprintf("%.1f,%.1f ", 60 + 660 * xs[i] / steps, 440 - 400 * (ys[i] - low) / (top - low))
        color = sprintf("hsl(%d,70%%,45%%)", (c - 1) * 360 / count)
        printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s><title>%s</title></polyline>\n", points, color, c == 1 ? 4 : 1.5, c == 1 ? " stroke-opacity=\".35\"" : "", n
        printf "<text x=\"732\" y=\"%d\" fill=\"%s\">%s %.4f</text>\n", 40 + 20 * c, color, n, last[n] }
      print "</svg><h2>Largest distance from serial training</h2><table><tr><th>schedule<th>largest difference of a mean<th>at the end"
      for (c = 1; c <= count; c++) { n = names[c]; most = 0
        for (s in at) { d = loss[n, s] - loss["serial", s]; if (d < 0) d = -d; if (d > most) most = d }
        printf "<tr><td>%s<td>%.6f<td>%+.6f\n", n, most, last[n] - last["serial"] }
      print "</table>" }' "$out/curves.txt" >"$out/convergence.html"
}

mkdir -p "$out"
for line in "${runs[@]}"; do
  read -r name rest <<<"$line"
  echo "== $name"
  # shellcheck disable=SC2086  # settings are separate words
  train "$name" $rest
done
curves >"$out/curves.txt"
page
awk '$1 == "serial" { s[$2] = $3 } { d = $3 - s[$2]; if (d < 0) d = -d; if (d > m[$1]) m[$1] = d; l[$1] = $3 }
     END { for (n in m) printf "%-22s last mean %.4f, largest distance from serial %.6f\n", n, l[n], m[n] }' "$out/curves.txt" | sort
echo "curves: $out/convergence.html"
