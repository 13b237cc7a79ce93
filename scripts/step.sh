#!/usr/bin/env bash
# Runs one step of a longer job under a heading, and says how long it took.
#   step.sh "heading" command arguments...
set -euo pipefail
heading=$1
shift
printf '\n== %s\n' "$heading"
start=$SECONDS
if "$@"; then
  printf -- '-- %s: %d s\n' "$heading" $((SECONDS - start))
else
  status=$?
  printf -- '-- %s: FAILED (status %d) after %d s\n' "$heading" "$status" $((SECONDS - start)) >&2
  exit "$status"
fi
