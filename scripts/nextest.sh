#!/usr/bin/env bash
# Runs tests with cargo-nextest: each in a process of its own, with a time limit
# (.config/nextest.toml), and all of them even if one fails.
#   nextest.sh what `cargo nextest run` takes
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
scripts/tools.sh cargo-nextest
# All run although one fails. As many at once as there are processors, counted in sixths:
# most take six, and those that only wait for the kernel take one. A build alone (--no-run)
# takes neither option.
options=()
if [[ " $* " != *" --no-run "* ]]; then
    options+=(--no-fail-fast)
    if [[ " $* " != *" --profile soak "* ]]; then options+=(--test-threads "$((6 * $(nproc)))"); fi
fi
exec cargo nextest run "${options[@]}" "$@"
