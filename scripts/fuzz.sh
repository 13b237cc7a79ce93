#!/usr/bin/env bash
# Fuzzes everything that reads foreign bytes or takes calls in any order, so many
# seconds for each target, as many targets at once as there are processors and one more, so
# that of an odd number on two processors none is left to run alone.
#   fuzz.sh 60 [target...]
#   fuzz.sh --again TARGET FILE     runs one input again
#   fuzz.sh --build                 builds the targets and runs none
# A target begins with the inputs in fuzz/seeds/TARGET. FUZZ_SEED=N repeats a run: the same
# inputs in the same order, where the target has no threads. Without it each run goes its
# own way, and keeps in fuzz/corpus/TARGET what leads to new code, for the next time; when
# that has grown, it is reduced to what covers as much.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

# The most files that a corpus may have before it is reduced.
MOST=2000

# Reduces the corpus of a target.
reduce() {
  local target=$1 all=fuzz/corpus/$1
  if (($(find "$all" -type f | wc -l) > MOST)); then
    timeout 600 cargo "+$NIGHTLY" fuzz cmin "$target" "$all" >/dev/null 2>&1 ||
      echo "fuzz: $target: its corpus could not be reduced"
  fi
}

# One target: fuzz.sh --one TARGET SECONDS. A crash leaves its input behind.
run_one() {
  local target=$1 seconds=$2 log corpus status=0
  local -a how=(-seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -max_len=2048)
  # Inputs of single bytes are no steps of a stack's. It is kept from one input to the next,
  # so there is always memory that was not given back: the target looks itself whether
  # anything is left of an input. Which features are rare, by which libFuzzer chooses among its
  # inputs, would take it more than half of the time, as each input of a stack has thousands of
  # them; and with 512 bytes there are steps enough to find what is found with 2,048.
  if [[ $target == stack ]]; then
    how+=(-len_control=0 -detect_leaks=0 -entropic=0 -max_len=512)
  fi
  log=$(mktemp)
  # libFuzzer writes into the first directory and reads all of them.
  local -a from=("fuzz/corpus/$target")
  if [[ -n ${FUZZ_SEED:-} ]]; then
    corpus=$(mktemp -d)
    from=("$corpus")
  else
    mkdir -p "${from[0]}"
  fi
  if [[ -d fuzz/seeds/$target ]]; then from+=("fuzz/seeds/$target"); fi
  timeout "$((seconds + 300))" cargo "+$NIGHTLY" fuzz run "$target" "${from[@]}" -- "${how[@]}" \
    >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    echo "fuzz: $target: $(grep -E '^Done ' "$log" || echo 'no runs')"
  else
    # What the target says stands before its stack, which may be long.
    grep -A 4 'panicked at' "$log" | head -40 >&2 || true
    grep -vE '^#[0-9]|^"' "$log" | tail -60 >&2
    echo "fuzz: $target FAILED (status $status); inputs in fuzz/artifacts/$target" >&2
  fi
  rm -rf "$log" "${corpus:-}"
  if ((status == 0)) && [[ -z ${FUZZ_SEED:-} ]]; then reduce "$target"; fi
  return "$status"
}

if [[ ${1:-} == --one ]]; then
  run_one "$2" "$3"
  exit
fi

if ! scripts/tools.sh nightly cargo-fuzz; then
  skip fuzz "there is no $NIGHTLY with cargo-fuzz, and it cannot be installed"
fi
if [[ ${1:-} == --again ]]; then
  exec cargo "+$NIGHTLY" fuzz run "$2" "$3"
fi

if [[ ${1:-} == --build ]]; then
  exec cargo "+$NIGHTLY" fuzz build
fi

seconds=${1:-60}
shift || true
if (($# == 0)); then
  mapfile -t targets < <(cargo "+$NIGHTLY" fuzz list)
  set -- "${targets[@]}"
fi
cargo "+$NIGHTLY" fuzz build
printf '%s\0' "$@" | xargs -0 -P "$(($(nproc) + 1))" -I{} "$0" --one {} "$seconds"
