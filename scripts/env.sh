# Sourced by the other scripts: goes to the top of the repository, knows the versions of
# tools.env, finds the tools that scripts/tools.sh has installed, and knows what it means
# that something cannot run here.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/tools.env
. scripts/tools.env
TOOLS=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools")
export PATH="$TOOLS/bin:$PATH"

# Whether a step or a test that cannot run here is a failure: on a machine that is there
# to run all of them.
nothing_may_be_skipped() {
  [[ -n ${LONGSHORE_REQUIRE_ROOT:-} || (-n ${CI:-} && ${CI:-} != false) ]]
}

# Leaves the script, because what it was to do cannot be done here: skip WHAT WHY. `make
# test` lists all of these at its end.
skip() {
  if nothing_may_be_skipped; then
    echo "$1: cannot run here, and nothing may be skipped: $2" >&2
    exit 1
  fi
  echo "SKIPPED: $1: $2"
  if [[ -n ${LONGSHORE_SKIPPED:-} ]]; then echo "$1: $2" >>"$LONGSHORE_SKIPPED"; fi
  exit 0
}
