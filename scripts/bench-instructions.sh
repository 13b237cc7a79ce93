#!/usr/bin/env bash
# Counts the instructions for each part of a packet's way with callgrind, and
# shows them beside those that Clark, Jacobson, Romkey and Salwen counted in 1989.
# Counts, not times: they repeat, whatever else the machine does.
set -euo pipefail
cd "$(dirname "$0")/.."

# The runner must be of the library's version.
version=$(sed -n '/^name = "gungraun-runner"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
tools="${CARGO_TARGET_DIR:-target}/tools"
mkdir -p "$tools"
tools=$(cd "$tools" && pwd)
export PATH="$tools/bin:$PATH"
if [ "$(gungraun-runner --version 2>/dev/null | awk '{print $NF}')" != "$version" ]; then
  echo "bench-instructions: installing gungraun-runner $version (a minute, once)"
  cargo install --locked --quiet --version "$version" --root "$tools" gungraun-runner
fi

report=$(mktemp)
trap 'rm -f "$report"' EXIT
echo "bench-instructions: building and counting (two minutes)"
cargo bench --quiet -p longshore-engine --features bench --bench instructions >"$report" 2>&1 ||
  { cat "$report" >&2; exit 1; }

awk '
  BEGIN {
    paper["tcp_input_data data"] = "186 (receiver of data)"
    paper["tcp_input_ack ack"] = "191-213 (sender of data)"
    paper["tcp_output data"] = "235"
    paper["ip_input packet"] = "57"
    paper["ip_output packet"] = "61"
    paper["connection_lookup same_as_last"] = "about 25"
    paper["timer_set fresh"] = "35"
    paper["stream_place one_byte"] = "35 (receive data, buffer layer)"
    format = "%-36s %12s   %s\n"
    printf format, "part", "instructions", "1989"
    printf format, "----", "------------", "----"
  }
  /^[a-z_]+::[a-z_]+::/ {
    name = $1; sub(/.*::/, "", name)
    sub(/^[^ ]* /, ""); sub(/:.*/, "")
    name = name " " $0
  }
  /^ +Instructions:/ { count = $2; sub(/\|.*/, "", count); printf format, name, count, paper[name]; n[name] = count }
  END {
    whole = n["whole_turn data_segment"] - n["whole_turn nothing"]
    if (whole > 0)
      printf "\na data segment from Ethernet header to stream, copy and checksum included: %d\n", whole
  }
' "$report"
