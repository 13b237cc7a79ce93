#!/usr/bin/env bash
# Counts the instructions that a program's calls take in the shim, with callgrind, and prints a
# line for each: its name, and its count. bench-instructions.sh calls it; as root.
#
# The program and its child are on an engine of their own, in a namespace of their own. A count is
# the median of some 50 calls: what the engine does meanwhile makes single ones differ.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
longshore=$(realpath "${LONGSHORE:-${CARGO_TARGET_DIR:-target}/release/longshore}")

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cc -O2 -Wall -Wextra -Werror -Wl,-z,now -o "$directory/calls" crates/preload/benches/calls.c

# valgrind is static: the loader puts the shim into what it runs.
# shellcheck disable=SC2016
unshare --net -- "$longshore" run --addr 10.77.0.2/24 --port tap:calls0 --sysctl none -- sh -c '
  exec valgrind --quiet --tool=callgrind --vgdb=no --collect-atstart=no --combine-dumps=yes \
    --trace-children=yes --toggle-collect="counted_*" --dump-after="end_of_*" \
    --callgrind-out-file="$1/counts.%p" env LD_PRELOAD="$LD_PRELOAD" "$1/calls" 10.77.0.2
  ' sh "$directory" 2>"$directory/errors" || { cat "$directory/errors" >&2; exit 1; }

# A dump for each call says after which function it was made, and has its total.
awk '
  /^desc: Trigger: --dump-after=/ { name = $3; sub(/.*end_of_/, "", name) }
  /^totals: / && name != "" { print name, $2; name = "" }
' "$directory"/counts.* | sort -k1,1 -k2,2n | awk '
  function median() { if (n) print "posix_call." name "," all[int((n + 1) / 2)] }
  $1 != name { median(); name = $1; n = 0 }
  { all[++n] = $2 }
  END { median() }
'
