#!/usr/bin/env bash
# Which crate may depend on which (docs/architecture.md), and what the sans-I/O crates
# must not touch.
set -euo pipefail
cd "$(dirname "$0")/.."

# crate      the crates of this workspace that it may use directly
ALLOWED=(
  "wire"
  "tcp      wire"
  "net      wire"
  "ring"
  "hostif   ring"
  "bus"
  "frames   ring"
  "ports    wire frames"
  "stack    wire tcp net hostif frames"
  "engine   wire tcp net ring hostif frames ports stack"
  "sockets  hostif ring"
  "link     hostif ring bus"
  "programs"
  "posix    sockets hostif"
  "preload  posix sockets hostif programs"
  "script   wire"
  "testbed  wire"
)
failed=0
complain() { echo "check-boundaries: $*" >&2; failed=1; }

for row in "${ALLOWED[@]}"; do
  read -r crate allowed <<<"$row"
  used=$(cargo tree -q --offline --locked -p "longshore-$crate" -e normal --depth 1 --prefix none --format '{p}' 2>/dev/null ||
    cargo tree -q -p "longshore-$crate" -e normal --depth 1 --prefix none --format '{p}')
  used=$(sed -n '2,$s/^longshore-\([a-z]*\) .*/\1/p' <<<"$used")
  for other in $used; do
    [[ " $allowed " == *" $other "* ]] || complain "crates/$crate depends on $other; it may use: ${allowed:-nothing}"
  done
done

# Time, randomness and the outside world are arguments to these.
FORBIDDEN='Instant::now|SystemTime|std::fs|std::env|std::process|std::thread|TcpStream|TcpListener|UdpSocket|getrandom|rand::|rustix|libc::'
for crate in wire tcp net bus; do
  if grep -rnE "$FORBIDDEN" "crates/$crate/src" --include='*.rs' | grep -vE '^[^:]*(/tests?\.rs|/tests/)[^:]*:|^[^:]*:[0-9]+:\s*//'; then
    complain "crates/$crate does I/O, or reads a clock or a source of randomness (above)"
  fi
done

# The stack keeps to that, too, and takes no secrets but those that it is given; tests of a
# part may take their time.
if grep -rnE "$FORBIDDEN|std::time|std::os|RandomState|\\bunsafe\\b" crates/stack/src --include='*.rs' |
  grep -vE '^[^:]*(/tests?\.rs|/tests/)[^:]*:|^[^:]*:[0-9]+:\s*//|NoUdpSocket|forbid\(unsafe_code\)'; then
  complain "crates/stack does I/O, reads a clock, or has a source of randomness or unsafe code (above)"
fi

# Unsafe code stands in few places. Beside those, a type may be declared fit for
# shared memory, which `ring` asks for.
for crate in tcp net bus hostif link programs posix; do
  if grep -rnE '\bunsafe (\{|fn|impl)' "crates/$crate/src" --include='*.rs' | grep -v 'unsafe impl Shared for'; then
    complain "crates/$crate has unsafe code (above)"
  fi
done

# The shim's stands behind few types: it has no more blocks than this, without those of tests.
PRELOAD_UNSAFE=45
blocks=$(find crates/preload/src -name '*.rs' -exec awk '
  FNR == 1 { tests = 0 } /^#\[cfg\(test\)\]/ { tests = 1 } !tests && index($0, "unsafe {") { n++ } END { print n + 0 }' {} +)
((blocks <= PRELOAD_UNSAFE)) ||
  complain "crates/preload has $blocks unsafe blocks outside of tests; it may have $PRELOAD_UNSAFE"

# Only `hostif` names what lies in an arena. These files did before that was the rule: a
# file that no longer does is taken off the list, and no other is put on it.
ARENA='\b(Arena|arena|SocketBlock|StreamSendHalf|StreamReceiveHalf|ChannelControl)\b'
ARENA_USERS=(
  crates/sockets/src/block_words.rs
  crates/sockets/src/fork.rs
  crates/sockets/src/holds.rs
  crates/sockets/src/host.rs
  crates/sockets/src/join.rs
  crates/sockets/src/reported_edges.rs
  crates/sockets/src/stream/recv.rs
  crates/sockets/src/stream/send.rs
)
names_arena() { [[ $(sed 's|//.*||' "$1" | grep -cE "$ARENA") != 0 ]]; }
for file in "${ARENA_USERS[@]}"; do
  [[ -f $file ]] && names_arena "$file" || complain "$file names no arena any more: take it off ARENA_USERS"
done
while IFS= read -r file; do
  [[ " ${ARENA_USERS[*]} " == *" $file "* ]] || ! names_arena "$file" ||
    complain "$file names an arena, which only crates/hostif may"
done < <(git grep -lE "$ARENA" -- 'crates/*/src/*.rs' | grep -vE '^crates/hostif/|/tests?\.rs$|/tests/|/testing/')

# In all crates, modules use each other in no circle.
ACYCLIC=(wire tcp net ring hostif bus frames ports stack engine sockets link programs posix preload script testbed measure cli)
scripts/module_cycles.py "${ACYCLIC[@]/#/crates/}" || complain "modules use each other in a circle (above)"

((failed == 0)) && echo "check-boundaries: all crates keep to docs/architecture.md"
exit "$failed"
