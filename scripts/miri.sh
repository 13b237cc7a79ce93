#!/usr/bin/env bash
# Runs the tests of the unsafe code under Miri, which finds undefined behaviour
# that an ordinary run does not show. Miri needs a nightly toolchain; where there
# is none and none can be added, this says so and passes.
set -euo pipefail
cd "$(dirname "$0")/.."

has_miri() { cargo +nightly miri --version >/dev/null 2>&1; }
if ! has_miri; then
  echo "miri: adding it to the nightly toolchain"
  timeout 300 rustup toolchain install nightly --profile minimal --component miri --component rust-src >/dev/null 2>&1 || true
fi
if ! has_miri; then
  echo "miri: SKIPPED: no nightly toolchain with Miri here, and none could be added"
  exit 0
fi
# Miri builds its own standard library from source, once.
if ! timeout 600 cargo +nightly miri setup >/tmp/miri-setup.$$ 2>&1; then
  echo "miri: SKIPPED: its standard library could not be built:"
  tail -3 /tmp/miri-setup.$$
  rm -f /tmp/miri-setup.$$
  exit 0
fi
rm -f /tmp/miri-setup.$$
# Shared memory needs a file of the machine; the tests that map one are left out
# under Miri by themselves.
export MIRIFLAGS="-Zmiri-disable-isolation"
# Each step costs a thousand times what it costs elsewhere, and undefined
# behaviour does not hide in the hundredth case.
export PROPTEST_CASES=8
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
cargo +nightly miri test -p longshore-ring --lib "$@"
