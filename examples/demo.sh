#!/usr/bin/env bash
# Measures collectives on this machine, between real processes, and draws them: `make demo`, or `bash examples/demo.sh DIR`.
#
# The ranks are scheduled as batch work. Under the default policy a small call between ranks that share a core is sometimes
# one tick of the scheduler late (4 ms on many kernels), so that its times fall into two groups and its mean says little;
# as batch work they rarely are, and the rows show the collectives. docs/how-it-measures.md has the numbers.
set -euo pipefail

out=${1:-results/demo}
mkdir -p "$out"
rm -f "$out/gloo.jsonl" "$out/mpi.jsonl"

step() { printf '\n\033[1m$'; printf ' %q' "$@"; printf '\033[0m\n'; "$@"; }

step busbw bench --world 2,4 --backend gloo --sched batch --time-budget 100s -o "$out/gloo.jsonl"
step busbw bench --world 2 --backend mpi --sched batch --time-budget 50s -o "$out/mpi.jsonl"
step busbw plot "$out/gloo.jsonl" -o "$out/gloo"
step busbw plot "$out/mpi.jsonl" --figure busbw_over_size --figure time_over_size -o "$out/mpi"

step busbw report "$out/gloo.jsonl" "$out/mpi.jsonl" --title "Six collectives on this machine's CPUs" -o "$out/report.html"

cat <<EOF

Done: six collectives at N = 2 and 4 over gloo, and at N = 2 over MPI, on this machine's CPUs.
  tables    above; again: .venv/bin/busbw show $out/gloo.jsonl
  results   $out/gloo.jsonl, $out/mpi.jsonl (one line a row, with every raw sample)
  report    file://$(cd "$out" && pwd)/report.html (open it in a browser: verdict, figures, fit, calculator, every row)
  pictures  $(cd "$out" && find . -name '*.svg' -o -name '*.png' | sort | sed "s|^\.|$out|" | tr '\n' ' ')
The ranks ran as batch work (--sched batch): under the default policy, ranks that share a core sometimes wait for the
scheduler's next tick, and rows of small sizes show that wait. What a program feels: the same with --sched default.
EOF
