#!/usr/bin/env bash
# Runs make targets one after the other, every one of them even if one before it fails,
# and closes with what failed, what was skipped and the counts: `make test`.
#   test.sh TARGET...
# What each said is kept in target/test/TARGET.log.
#
# Beside them, what later ones compile is compiled (`make ahead`, target/test/ahead.log), in
# the time that nobody else wants of the processors (SCHED_IDLE): compiling a large crate
# takes one, and many tests wait.
set -uo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

logs=${CARGO_TARGET_DIR:-target}/test
mkdir -p "$logs"
# One at a time with one target directory, for the logs' sake; others may run beside it.
# What is run below does not inherit the lock: it may leave something behind.
exec 8<"$logs"
if ! flock --nonblock 8; then
  echo "test: another \`make test\` runs with $logs; wait for it, or set CARGO_TARGET_DIR" >&2
  exit 1
fi
rm -rf "${logs:?}"/*
LONGSHORE_SKIPPED=$(realpath "$logs")/skipped
export LONGSHORE_SKIPPED
: >"$LONGSHORE_SKIPPED"

# How many passed and failed, by what the test runners say at their ends; a target
# without such a word counts for one, and for none if it has skipped what it was to do.
count() {
  awk -v status="$2" '
    # The number before a word.
    function before(word,   at) {
      return match($0, "[0-9]+ " word) ? substr($0, RSTART, RLENGTH) + 0 : 0
    }
    / Summary \[/ || /^test result: / {
      passed += before("passed"); failed += before("failed") + before("timed out") + before("exec failed")
    }
    /^fuzz: [a-z]+: Done / { passed++ }
    /^fuzz: [a-z]+ FAILED/ { failed++ }
    /^SKIPPED: / { skipped = 1 }
    END {
      if (status && !failed) failed = 1
      if (!passed && !failed && !skipped) passed = 1
      print passed + 0, failed + 0
    }
  ' "$1"
}

# In a process group of its own, which ends with this script.
set -m
chrt --idle 0 "${MAKE:-make}" --no-print-directory ahead >"$logs/ahead.log" 2>&1 8<&- &
ahead=$!
set +m
trap 'kill -- "-$ahead" 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start=$SECONDS
passed=0 failed=0 wrong=() times=()
for target in "$@"; do
  began=$SECONDS status=0
  ${MAKE:-make} --no-print-directory "$target" 2>&1 8<&- | tee "$logs/$target.log" || status=$?
  read -r here bad < <(count "$logs/$target.log" "$status")
  passed=$((passed + here)) failed=$((failed + bad))
  times+=("$(printf '%5d s  %-14s %s' $((SECONDS - began)) "$target" "$( ((status == 0)) && echo passed || echo FAILED)")")
  if ((status != 0)); then wrong+=("$target"); fi
done

printf '\n== make test: %d s\n' $((SECONDS - start))
printf '%s\n' "${times[@]}"
for target in "${wrong[@]}"; do
  echo "FAILED: $target ($logs/$target.log)"
  # Those that nextest names, once each.
  grep -aoE '^ +(FAIL|TIMEOUT|SIG[A-Z]+|ABORT) .*' "$logs/$target.log" |
    sed -E 's/\[[^]]*\]|\([^)]*\)//g' | sort -u | sed 's/^ */  /'
done
skipped=$(sort -u "$LONGSHORE_SKIPPED" | wc -l)
if ((skipped > 0)); then
  echo "SKIPPED, because it cannot run on this machine:"
  sort -u "$LONGSHORE_SKIPPED" | sed 's/^/  /'
else
  echo "Nothing was skipped."
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && ${#wrong[@]} == 0))
