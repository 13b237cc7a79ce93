#!/usr/bin/env bash
# Who may depend on whom (docs/architecture.md), and what the sans-I/O crates
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
  "ports    wire"
  "engine   wire tcp net ring hostif ports"
  "sockets  hostif ring"
  "programs"
  "preload  sockets hostif programs"
  "script   wire"
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

# Unsafe code stands in few places. Beside those, a type may be declared fit for
# shared memory, which `ring` asks for.
for crate in tcp net bus hostif programs; do
  if grep -rnE '\bunsafe (\{|fn|impl)' "crates/$crate/src" --include='*.rs' | grep -v 'unsafe impl Shared for'; then
    complain "crates/$crate has unsafe code (above)"
  fi
done

((failed == 0)) && echo "check-boundaries: all crates keep to docs/architecture.md"
exit "$failed"
