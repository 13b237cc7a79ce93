#!/usr/bin/env bash
# Proves that the end-to-end tests need Longshore: runs those on Longshore with a library
# that does nothing in the place of the shim. Each has to fail; one that passes would pass,
# too, if Longshore carried nothing.
#   e2e-unserved.sh [FILTER]      of nextest, as 'binary(sockets)'; all by default
# Those that claim no traffic are in tests/e2e/unserved.txt, with the reason. A quarter of an hour: a test
# that waits for what does not come is stopped after a minute, which counts as failed.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
scripts/tools.sh cargo-nextest

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
gcc -shared -o "$place/empty.so" -x c /dev/null
export LONGSHORE_PRELOAD=$place/empty.so

# Those on the kernel are not served anyway, and the scripts drive the engine by its wire.
filter='package(longshore-e2e) and not binary(scripts) and not test(/::kernel$/)'
if [[ -n ${1:-} ]]; then filter="$filter and ($1)"; fi
status=0
cargo nextest run --workspace --profile unserved --test-threads "$((15 * $(nproc)))" -E "$filter" \
  >"$place/log" 2>&1 || status=$?
# 0: all passed; 100: some failed. Others: it did not get so far.
if ((status != 0 && status != 100)); then
  tail -40 "$place/log" >&2
  exit "$status"
fi
sed -nE 's/^ +PASS \[[^]]*\] (\([^)]*\) )?longshore-e2e::([^ ]+) ([^ ]+)$/\2 \3/p' "$place/log" |
  sort -u >"$place/passed"
sed -nE 's/^ +(FAIL|TIMEOUT|SIG[A-Z]+|ABORT) \[[^]]*\] (\([^)]*\) )?longshore-e2e::([^ ]+) ([^ ]+)$/\3 \4/p' \
  "$place/log" | sort -u >"$place/failed"
sed -E 's/  #.*//; /^(#|$)/d' tests/e2e/unserved.txt | sort -u >"$place/may"

wrong=0
while read -r name; do
  echo "passes without Longshore, and is not in tests/e2e/unserved.txt: $name"
  wrong=1
done < <(comm -23 "$place/passed" "$place/may")
while read -r name; do
  echo "fails without Longshore, and need not be in tests/e2e/unserved.txt: $name"
  wrong=1
done < <(comm -12 "$place/failed" "$place/may")
if [[ -z ${1:-} ]]; then
  while read -r name; do
    echo "is in tests/e2e/unserved.txt, and no test has this name: $name"
    wrong=1
  done < <(sort -u "$place/passed" "$place/failed" | comm -13 - "$place/may")
fi
echo "$(wc -l <"$place/failed") failed, as they should, $(wc -l <"$place/passed") passed"
exit "$wrong"
