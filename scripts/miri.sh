#!/usr/bin/env bash
# Runs the tests of the unsafe code under Miri, which finds undefined behaviour
# that an ordinary run does not show. Miri is part of the nightly toolchain of tools.env.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

scripts/tools.sh nightly || skip miri "there is no $NIGHTLY with Miri, and it cannot be installed"
# Memory that two processes map is memory of the test's own there (ring/src/shm/pages.rs).
# The tests that need two mappings, or what else of the kernel Miri does not have, are left
# out by themselves, each with its reason, which is said at the end.
export MIRIFLAGS="-Zmiri-disable-isolation"
# A test that is to panic takes seconds more where the panic has its stack written.
export RUST_BACKTRACE=0
# Each step costs a thousand times what it costs elsewhere, and undefined
# behaviour does not hide in the hundredth case. hostif has no unsafe code but on the memory
# of ring, which its random cases do not touch.
declare -A CASES=([ring]=8 [hostif]=2)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
# The first time, Miri builds its own standard library from source.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# Places of a ring are written as words and read as bytes. Miri stops with a bug of its own
# where it remembers older values of such memory for threads that may see them; hostif's tests
# run in one thread, and loom has the ring's orders.
declare -A FLAGS=([ring]='' [hostif]=-Zmiri-disable-weak-memory-emulation)
# Half of hostif's time went to tests of values that are made into messages and back: they
# touch no shared memory, and the crate has no unsafe code of its own (check-boundaries.sh).
VALUES=(abi::address:: abi::descriptor:: abi::error_report:: abi::inventory::
  abi::record:: adapter::pending_edges:: host::warning::)
skips=()
for values in "${VALUES[@]}"; do skips+=(--skip "$values"); done
test_crate() {
  MIRIFLAGS="$MIRIFLAGS ${FLAGS[$1]}" PROPTEST_CASES=${CASES[$1]} \
    cargo "+$NIGHTLY" miri test -p "longshore-$1" --lib "${@:2}" 2>&1
}
# Miri runs on one processor: the adapter's half, which takes as long as all else, is tested
# beside that.
{
  one=0
  test_crate ring "$@" || one=$?
  test_crate hostif "$@" -- "${skips[@]}" --skip adapter:: || one=$?
  exit "$one"
} >"$logs/rest" &
rest=$! status=0
test_crate hostif "$@" -- "${skips[@]}" adapter:: | tee "$logs/adapter" || status=$?
wait "$rest" || status=$?
cat "$logs/rest"
sed -n 's/^test \(.*\) \.\.\. ignored, \(.*\)/miri: not run: \1: \2/p' "$logs/rest" "$logs/adapter"
printf 'miri: not run: %s*: values, which touch no shared memory\n' "${VALUES[@]}"
exit "$status"
