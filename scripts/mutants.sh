#!/usr/bin/env bash
# Changes the code in one small place after the other and looks whether a test fails then:
# what tests would not notice is a mutant that survives.
#   mutants.sh [OPTION...]     `mutants.sh --help` names them
# In the environment:
#   MUTANTS   crates or patterns of files, separated by blanks; by default all of those that
#             the help names. `MUTANTS="wire ring"`, `MUTANTS="crates/tcp/src/recovery/**"`
#   SHARD     k/n: of each crate one mutant of n, from the k-th on, k from 0
#   MINUTES   stop after so many, and say how far it is
#   FRESH     1: begin again; otherwise what was caught before is not tried again until its
#             file changes
#   QUICK     1: by tests of at most a second, which is the way to look for what is missing
#   LONGSHORE_SEEDS
#             seeds of each simulation of tcp and stack, which are long tests otherwise: with
#             40 of them and `--test-seconds 5` they reach what no other test of stack does
#
# All mutants of a crate are compiled at once (tests/mutants/schema), in a copy of the
# repository below target/mutants/schema, so one costs a run of those tests of its own crate that
# reach it: some tenths of a second if one fails soon, and all of their time if none does (of
# stack, with QUICK=1, half an hour for some 4,600 on two processors). It
# ends with what was caught, and fails if a mutant survives that is not in
# tests/mutants/survivors.txt, or if one is in it that does not.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

options=()
if [[ -n ${SHARD:-} ]]; then options+=(--shard "$SHARD"); fi
if [[ -n ${MINUTES:-} ]]; then options+=(--minutes "$MINUTES"); fi
if [[ -n ${FRESH:-} ]]; then options+=(--fresh); fi
if [[ -n ${QUICK:-} ]]; then options+=(--test-seconds 1); fi
read -ra what <<<"${MUTANTS:-}"

tool=$(realpath -m "${CARGO_TARGET_DIR:-target}/mutants/tool")
CARGO_TARGET_DIR=$tool cargo build --quiet --locked --manifest-path tests/mutants/schema/Cargo.toml
exec nice -n "${NICE:-10}" "$tool/debug/longshore-mutants" "${options[@]}" "$@" "${what[@]}"
