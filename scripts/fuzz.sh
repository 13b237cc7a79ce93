#!/usr/bin/env bash
# Fuzzes everything that reads foreign bytes, so many seconds for each target.
#   fuzz.sh 60 [target...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true

version=0.13.2
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: installing cargo-fuzz $version (a minute, once)"
  cargo install --locked --quiet cargo-fuzz --version "$version"
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "fuzz: a nightly toolchain is needed: rustup toolchain install nightly" >&2
  exit 1
fi
if (($# == 0)); then
  mapfile -t targets < <(cargo +nightly fuzz list)
  set -- "${targets[@]}"
fi
cargo +nightly fuzz build
for target in "$@"; do
  echo "fuzz: $target for $seconds s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=2048 -print_final_stats=1 2>&1 |
    grep -E 'panicked|ERROR|SUMMARY|stat::(number_of_executed_units|new_units_added)|Done|error' || true
  # A crash leaves its input behind.
  if compgen -G "fuzz/artifacts/$target/*" >/dev/null; then
    echo "fuzz: $target FAILED; inputs in fuzz/artifacts/$target" >&2
    exit 1
  fi
done
