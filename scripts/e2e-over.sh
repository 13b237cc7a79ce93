#!/usr/bin/env bash
# Runs end-to-end tests with their programs behind a modelled bus (`longshore run` gets
# `--transport` as its first option, whatever a test says), or with their engine at the other end
# of a link (scripts/over_link.py).
#   e2e-over.sh bus:pcie-gen4x8|link [FILTER]      of nextest; programs and sockets by default
# What may end otherwise is in tests/e2e/over-a-bus.txt, with the reason: checks of
# tests/e2e/programs one by one, other tests whole. Anything else that fails is wrong.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
scripts/tools.sh cargo-nextest

transport=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
real=$(realpath "${LONGSHORE:-${CARGO_TARGET_DIR:-target}/release/longshore}")
if [[ $transport == link ]]; then
  cat >"$place/longshore" <<END
#!/bin/bash
exec "$PWD/scripts/over_link.py" "$place" "$real" "\$@"
END
else
  cat >"$place/longshore" <<END
#!/bin/bash
if [[ \${1:-} == run ]]; then
  shift
  exec "$real" run --transport "$transport" "\$@"
fi
exec "$real" "\$@"
END
fi
chmod +x "$place/longshore"
# Tests that need it elsewhere find it beside the program; others' users may look here.
chmod 755 "$place"
ln -s "$(dirname "$real")/liblongshore_preload.so" "$place"
export LONGSHORE=$place/longshore

# Those on the kernel are not carried, and those of binaries that choose a transport are.
filter='package(longshore-e2e) and not test(/::kernel$/)'
filter="$filter and (${2:-binary(/^(sockets|servers|clients|both_ends|files|ipv6|differential|applications|environments)$/)})"
status=0
scripts/nextest.sh -p longshore-e2e --status-level pass -E "$filter" >"$place/log" 2>&1 || status=$?
# 0: all passed; 100: some failed. Others: it did not get so far.
if ((status != 0 && status != 100)); then
  tail -40 "$place/log" >&2
  exit "$status"
fi
# Of a program of checks those that were wrong; nextest says all failed tests twice.
tests() {
  sed -nE "s/^ +($1) \[[^]]*\] (\([^)]*\) )?longshore-e2e::([^ ]+) ([^ :]+).*\$/\3 \4/p" "$place/log" | sort -u
}
sed -nE 's/^ +([a-z0-9_]+) \(far end: [a-z]+\): .*/\1/p' "$place/log" | sort -u >"$place/checks"
sed -nE 's/^ *([a-z0-9_]+): [0-9]+ of [0-9]+ checks are wrong:$/\1/p' "$place/log" | sort -u >"$place/programs"
tests 'FAIL|TIMEOUT|SIG[A-Z]+|ABORT' >"$place/failed"
tests 'PASS|SLOW' >"$place/passed"
sed -E 's/ *#.*//; /^$/d' tests/e2e/over-a-bus.txt | sort -u >"$place/may"

wrong=0
while read -r name; do
  # A program of checks has failed for those.
  [[ ${name%% *} == sockets ]] && grep -qx "${name#* }" "$place/programs" && continue
  [[ $name == "sockets signal_driven" ]] && grep -qx async "$place/programs" && continue
  echo "$name" >>"$place/checks"
done <"$place/failed"
while read -r name; do
  echo "fails over $transport, and is not in tests/e2e/over-a-bus.txt: $name"
  wrong=1
done < <(sort -u "$place/checks" | comm -23 - "$place/may")
if ((wrong)); then
  cat "$place/log" >&2
  exit 1
fi
echo "end to end over $transport: $(wc -l <"$place/passed") tests pass, $(wc -l <"$place/failed") fail as they may"
