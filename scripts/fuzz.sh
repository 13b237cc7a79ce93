#!/usr/bin/env bash
# Fuzzes everything that reads foreign bytes or takes calls in any order, so many
# seconds for each target, as many targets at once as there are processors and one more, so
# that of an odd number on two processors none is left to run alone.
#   fuzz.sh 60 [target...]
# FUZZ_SEED=N repeats a run: the same inputs in the same order, where the target has
# no threads; without it each run goes its own way.
# Needs a nightly toolchain and cargo-fuzz, and adds them; where there are none and
# none can be added, this says so and passes.
set -euo pipefail
cd "$(dirname "$0")/.."

# One target: fuzz.sh --one TARGET SECONDS. A crash leaves its input behind.
run_one() {
  local target=$1 seconds=$2 log
  local -a how=(-seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -max_len=2048)
  # Of whole engines too few run in a minute to begin with inputs of single bytes.
  if [[ $target == engine ]]; then how+=(-len_control=0); fi
  log=$(mktemp)
  if cargo +nightly fuzz run "$target" -- "${how[@]}" >"$log" 2>&1; then
    echo "fuzz: $target: $(grep -E '^Done ' "$log" || echo 'no runs')"
    rm -f "$log"
  else
    grep -vE '^#[0-9]|^"' "$log" | tail -60 >&2
    rm -f "$log"
    echo "fuzz: $target FAILED; inputs in fuzz/artifacts/$target" >&2
    return 1
  fi
}

if [[ ${1:-} == --one ]]; then
  run_one "$2" "$3"
  exit
fi

seconds=${1:-60}
shift || true

if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "fuzz: adding a nightly toolchain"
  timeout 300 rustup toolchain install nightly --profile minimal >/dev/null 2>&1 || true
fi
version=0.13.2
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: installing cargo-fuzz $version (a minute, once)"
  cargo install --locked --quiet cargo-fuzz --version "$version" || true
fi
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "fuzz: SKIPPED: no nightly toolchain with cargo-fuzz here, and none could be added"
  exit 0
fi
if (($# == 0)); then
  mapfile -t targets < <(cargo +nightly fuzz list)
  set -- "${targets[@]}"
fi
cargo +nightly fuzz build
printf '%s\0' "$@" | xargs -0 -P "$(($(nproc) + 1))" -I{} "$0" --one {} "$seconds"
