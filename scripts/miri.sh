#!/usr/bin/env bash
# Runs the tests of the unsafe code under Miri, which finds undefined behaviour
# that an ordinary run does not show. Miri is part of the nightly toolchain of tools.env.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

scripts/tools.sh nightly || skip miri "there is no $NIGHTLY with Miri, and it cannot be installed"
# Shared memory needs a file of the machine; the tests that map one are left out
# under Miri by themselves.
export MIRIFLAGS="-Zmiri-disable-isolation"
# Each step costs a thousand times what it costs elsewhere, and undefined
# behaviour does not hide in the hundredth case.
export PROPTEST_CASES=8
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
# The first time, Miri builds its own standard library from source.
cargo "+$NIGHTLY" miri test -p longshore-ring --lib "$@"
