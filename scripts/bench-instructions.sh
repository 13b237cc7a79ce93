#!/usr/bin/env bash
# Counts the instructions for each part of a packet's way and for a program's calls with
# callgrind, as root, and shows them beside those that Clark, Jacobson, Romkey and Salwen
# counted in 1989 and beside those of the last time they were written down.
# Counts, not times: they repeat, whatever else the machine does.
#
#   bench-instructions.sh            count, show, and fail if a part has become dearer, or
#                                    a turn beside a thousand sessions, or with 256 processes
#                                    that have one listener, takes more than 1.2 times what it
#                                    takes with one, or with three
#   bench-instructions.sh --keep     count, show, and write the counts down
#   bench-instructions.sh --document count nothing; fail if the document's table has other
#                                    counts than what is written down
#
# What is written down is crates/engine/benches/instructions.csv, a line for each
# part: its name, its count, and by how much of it in percent it may grow. They are of
# x86-64 with AVX2, which copies and checksums use; on another processor they are shown
# and not compared.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
kept=crates/engine/benches/instructions.csv
document=docs/instructions.md

# The document with the counts that are written down in its table, whose last column names them.
shown_counts() {
  awk '
    function with_commas(n) {
      return n < 1000 ? n : sprintf("%d,%03d", n / 1000, n % 1000)
    }
    FILENAME == ARGV[1] { split($0, part, ","); kept["`" part[1] "`"] = part[2]; next }
    /^\| / {
      cells = split($0, cell, " [|] ?")
      name = cell[cells - 1]
      if (name in kept) sub(/ \| [0-9,]+ \| /, " | " with_commas(kept[name]) " | ")
    }
    { print }
  ' "$kept" "$document"
}

check_document() {
  shown_counts | diff "$document" - >&2 || {
    echo "bench-instructions: $document has other counts than $kept: make bench-instructions-keep" >&2
    return 1
  }
}

if [ "${1:-}" = --document ]; then
  check_document
  exit
fi

[ "$(id -u)" = 0 ] || {
  echo "bench-instructions: needs root: a program's calls are counted on an engine" >&2
  exit 1
}

# The runner must be of the library's version.
scripts/tools.sh gungraun-runner

report=$(mktemp)
counts=$(mktemp)
trap 'rm -f "$report" "$counts"' EXIT
echo "bench-instructions: building and counting (two minutes)"
cargo bench --quiet -p longshore-engine --features counted --bench instructions >"$report" 2>&1 ||
  { cat "$report" >&2; exit 1; }

# A line for each part: name, count.
awk '
  /^[a-z_]+::[a-z_]+::/ {
    name = $1; sub(/.*::/, "", name)
    sub(/^[^ ]* /, ""); sub(/:.*/, "")
    name = name "." $0
  }
  /^ +Instructions:/ { count = $2; sub(/\|.*/, "", count); print name "," count }
' "$report" >"$counts"
cargo build --quiet --release -p longshore-cli -p longshore-preload
scripts/count-calls.sh >>"$counts"
[ -s "$counts" ] || { echo "bench-instructions: nothing was counted" >&2; cat "$report" >&2; exit 1; }

comparable=1
if [ "$(uname -m)" != x86_64 ] || ! grep -qw avx2 /proc/cpuinfo; then
  comparable=0
fi

if [ "${1:-}" = --keep ]; then
  awk -F, -v OFS=, '{ print $1, $2, 3 }' "$counts" >"$kept"
  shown_counts >"$report"
  cat "$report" >"$document"
  echo "bench-instructions: written to $kept and $document"
fi
check_document

awk -F, -v comparable="$comparable" '
  BEGIN {
    paper["tcp_input_data.data"] = "186 (receiver of data)"
    paper["tcp_input_ack.ack"] = "191-213 (sender of data)"
    paper["tcp_output.data"] = "235"
    paper["ip_input.packet"] = "57"
    paper["ip_output.packet"] = "61"
    paper["connection_lookup.another"] = "about 25"
    paper["timer_set.fresh"] = "35"
    paper["timer_set.again"] = "41 (reset)"
    paper["timer_clear.set"] = "17"
    paper["stream_place.one_byte"] = "35 (buffer layer, no byte moved)"
    paper["frame_to_stream.one_byte"] = "335 (all layers, control information alone)"
    format = "%-50s %12s %8s   %s\n"
    printf format, "part", "instructions", "kept", "1989"
    printf format, "----", "------------", "----", "----"
  }
  FILENAME == ARGV[1] { kept[$1] = $2; may[$1] = $3; next }
  {
    seen[$1] = 1
    n[$1] = $2
    printf format, $1, $2, ($1 in kept) ? kept[$1] : "-", paper[$1]
    if (!($1 in kept)) {
      faults = faults "  " $1 " is not in the file of counts\n"
    } else if ($2 > kept[$1] * (1 + may[$1] / 100) && $2 > kept[$1] + 2) {
      faults = faults sprintf("  %s: %d, was %d (%+.1f %%)\n", $1, $2, kept[$1], 100 * ($2 / kept[$1] - 1))
    }
  }
  END {
    for (name in kept)
      if (!(name in seen))
        faults = faults "  " name " was not counted\n"
    # What is done for one session must not cost more for there being others.
    for (name in seen) {
      alone = name
      if (sub(/_(beside_a_thousand_sessions|among_256_processes)$/, "", alone) && n[name] > 1.2 * n[alone])
        faults = faults sprintf("  %s: %d, more than 1.2 times the %d alone\n", name, n[name], n[alone])
    }
    whole = n["whole_turn.data_segment"] - n["whole_turn.nothing"]
    if (whole > 0)
      printf "\na turn with a data segment beyond one without, copy and checksum included: %d\n", whole
    if (!comparable) {
      print "\nbench-instructions: not compared: this processor is not x86-64 with AVX2"
      exit 0
    }
    if (faults != "") {
      printf "\nbench-instructions: dearer than what is written down:\n%s", faults
      printf "If that is meant, write the new counts down: make bench-instructions-keep\n"
      exit 1
    }
    print "\nbench-instructions: no part is dearer than what is written down"
  }
' "$kept" "$counts"
