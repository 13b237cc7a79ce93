#!/usr/bin/env bash
# Changes the code in one small place after the other and looks whether a test fails then
# (cargo-mutants): what tests would not notice is a mutant that survives.
#   mutants.sh [--list]
# In the environment:
#   MUTANTS   crates or patterns of files, separated by blanks; by default all of the crates
#             below. `MUTANTS="wire ring"`, `MUTANTS="crates/tcp/src/recovery/**"`
#   SHARD     k/n: of each crate one mutant of n, from the k-th on, k from 0
#   MINUTES   stop after so many, and say how far it is
#   FRESH     1: begin again; otherwise what was caught before is not tried again
#
# The code is copied to a temporary directory and changed there; results are kept in
# target/mutants. A mutant is tried by the tests of its own crate. All of them take days of
# one processor; a crate's share is a matter of 5 to 30 s for each mutant:
#   wire, net, hostif, link: about 1,000 each; ring: 260; bus: 520; sockets: 1,400;
#   engine and stack: 3,400; tcp: 4,300
# so one run is for a crate, a file, or a shard. It ends with what was caught, and fails if a
# mutant survives that is not in tests/mutants/survivors.txt, or if one is in it that does not.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

CRATES=(wire ring bus net hostif link sockets tcp stack engine)
OUT=${CARGO_TARGET_DIR:-target}/mutants
survivors=tests/mutants/survivors.txt

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '/^set /d'
  exit "$1"
}
case ${1:-} in
  '' | --list) ;;
  -h | --help) usage 0 ;;
  *) usage 2 >&2 ;;
esac

scripts/tools.sh cargo-nextest cargo-mutants

# What was asked for: crates, and patterns of files, each of which is of one crate.
crates=() patterns=()
for word in ${MUTANTS:-}; do
  if [[ " ${CRATES[*]} " == *" $word "* ]]; then
    crates+=("$word")
  elif [[ $word =~ ^crates/([a-z]+)/ && " ${CRATES[*]} " == *" ${BASH_REMATCH[1]} "* ]]; then
    patterns+=("$word")
    if [[ " ${crates[*]} " != *" ${BASH_REMATCH[1]} "* ]]; then crates+=("${BASH_REMATCH[1]}"); fi
  else
    echo "mutants: $word is neither one of ${CRATES[*]} nor a pattern that begins with crates/" >&2
    exit 2
  fi
done
((${#crates[@]} > 0)) || crates=("${CRATES[@]}")
if [[ -n ${SHARD:-} && ! $SHARD =~ ^[0-9]+/[1-9][0-9]*$ ]]; then
  echo "mutants: SHARD=$SHARD is not k/n" >&2
  exit 2
fi

of=()
for pattern in "${patterns[@]}"; do of+=(--file "$pattern"); done
which_shard=()
if [[ -n ${SHARD:-} ]]; then which_shard=(--shard "$SHARD" --sharding round-robin); fi

if [[ ${1:-} == --list ]]; then
  for crate in "${crates[@]}"; do
    cargo mutants --list -p "longshore-$crate" "${of[@]}" "${which_shard[@]}"
  done
  exit
fi

# The same for all, so that what was built for one mutant is most of what the next needs.
export CARGO_PROFILE_DEV_DEBUG=0
# A test that fails is enough, and one that hangs has failed.
export NEXTEST_PROFILE=mutants
# The copy has a target directory of its own.
unset CARGO_TARGET_DIR

# Adds what the last run of a crate has found to what those before it did; the last word on
# a mutant counts.
absorb() {
  local kind file
  for kind in caught timeout missed unviable; do
    file=$1/mutants.out/$kind.txt
    if [[ -f $file ]]; then sed "s/^/$kind /" "$file" >>"$1/results.txt"; fi
  done
}

end=$((SECONDS + ${MINUTES:-100000} * 60))
stopped=''
for crate in "${crates[@]}"; do
  left=$((end - SECONDS))
  if ((left <= 0)); then
    stopped=1
    break
  fi
  out=$OUT/$crate
  if [[ -n ${FRESH:-} ]]; then rm -rf "$out"; fi
  mkdir -p "$out"
  # What no run of it is through with is not asked for again by those of another shard.
  cargo mutants --list -p "longshore-$crate" >"$out/all.txt"
  # One that was killed has not got to it.
  absorb "$out"
  resume=()
  if [[ -f $out/mutants.out/caught.txt ]]; then resume=(--iterate); fi
  echo "== mutants of $crate${SHARD:+, shard $SHARD}"
  status=0
  timeout --signal=INT --kill-after=60 "$left" \
    nice -n "${NICE:-10}" cargo mutants --test-tool nextest --jobs 1 --output "$out" \
    --colors never --no-times -p "longshore-$crate" "${of[@]}" "${which_shard[@]}" "${resume[@]}" ||
    status=$?
  absorb "$out"
  # 0: all caught; 2: some missed; 3: some timed out. Others: it did not get so far.
  case $status in
    0 | 2 | 3) ;;
    124 | 130 | 137) stopped=1 ;;
    *) exit "$status" ;;
  esac
  [[ -z $stopped ]] || break
done

status=0
/usr/bin/python3 scripts/mutants_report.py "$OUT" "$survivors" "${CRATES[@]}" || status=$?
if [[ -n $stopped ]]; then
  echo "mutants: stopped${MINUTES:+ after $MINUTES minutes}; the same command goes on from here"
fi
exit "$status"
