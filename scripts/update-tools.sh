#!/usr/bin/env bash
# Moves all pins of toolchains and tools, each to the newest version that passes:
#   the nightly, in tools.env      with which Miri passes and every fuzz target runs;
#   the stable compiler, in rust-toolchain.toml
#                                  with which formatting, clippy and the unit tests pass;
#   gungraun and its runner, in crates/engine/Cargo.toml and Cargo.lock, which have one version
#                                  with which the instructions can be counted;
#   each other tool, in tools.env  with a binary if there is one.
# What is pinned stays where nothing newer passes. The compiler that this workspace needs at least
# (rust-version in Cargo.toml) is no pin, and stays, too. `make test` then says whether all else
# goes with it; the files are for you to commit.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
file=scripts/tools.env

# Whether version $1 is newer than $2.
is_newer() { [[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | tail -1) == "$1" ]]; }

# The newest version of a crate on crates.io; nothing if it cannot be asked. From outside: inside
# of a workspace cargo answers for the workspace.
newest_crate() {
  (cd / && cargo info --quiet --registry crates-io "$1" 2>/dev/null |
    sed -n 's/^version: *\([0-9.]*\).*/\1/p') || true
}

# Runs a command, and shows the end of what it said if it fails: passes WHAT COMMAND...
passes() {
  local what=$1 log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    rm -f "$log"
    return
  fi
  echo "update-tools: $what does not serve:"
  { grep -v ': not run: ' "$log" || true; } | tail -15 | sed 's/^/  /'
  rm -f "$log"
  return 1
}

# What each is wanted for. They are called in conditions, where `set -e` has no effect.
nightly_passes() {
  NIGHTLY=$1 CI=true scripts/miri.sh && NIGHTLY=$1 CI=true FUZZ_SEED=1 scripts/fuzz.sh 10
}
stable_passes() (
  export RUSTUP_TOOLCHAIN=$1
  cargo fmt --all --check &&
    cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings &&
    scripts/nextest.sh --workspace -E 'not package(longshore-e2e)'
)
gungraun_passes() {
  cargo update --quiet --package gungraun --package gungraun-runner &&
    scripts/tools.sh gungraun-runner &&
    scripts/bench-instructions.sh
}

# Installs a nightly, and says whether it serves: 1 if it does not, which then takes a gigabyte for
# nothing; 2 if it is not to be had, or not with all that is wanted of it.
nightly_serves() {
  local candidate=$1 had
  had=$(rustup toolchain list | grep "^$candidate-" || true)
  if ! timeout 600 rustup toolchain install "$candidate" --profile minimal --no-self-update \
    --component miri --component rust-src >/dev/null 2>&1; then
    return 2
  fi
  echo "update-tools: trying $candidate"
  if passes "$candidate" nightly_passes "$candidate"; then return; fi
  [[ -n $had ]] || rustup toolchain uninstall "$candidate" >/dev/null 2>&1 || true
  return 1
}

# The newest that is to be had; if that does not serve, what is broken has been so from some day on,
# which is looked for by halves: to try one takes minutes. Days on which there was none say nothing
# of those before them.
move_nightly() {
  local pinned=${NIGHTLY#nightly-} serves at status day tried=false missing=0
  local -a days=()
  serves=$pinned
  if ! asked "dist/$pinned/channel-rust-nightly.toml" >/dev/null; then
    echo "update-tools: nightly-$pinned: what is newest cannot be asked"
    return
  fi
  echo "update-tools: looking for nightlies after $pinned"
  for ((at = 1; at < ($(date -u +%s) - $(date -u -d "$pinned" +%s)) / 86400; at++)); do
    days+=("$(date -u -d "$pinned + $at days" +%F)")
  done
  while ((${#days[@]} > 0)); do
    if "$tried"; then at=$((${#days[@]} / 2)); else at=$((${#days[@]} - 1)); fi
    day=${days[at]} status=0
    nightly_serves "nightly-$day" || status=$?
    case $status in
      0)
        serves=$day tried=true
        sed -i "s/^NIGHTLY=.*/NIGHTLY=\${NIGHTLY:-nightly-$day}/" "$file"
        days=("${days[@]:at+1}")
        ;;
      1)
        tried=true
        days=("${days[@]:0:at}")
        ;;
      *)
        missing=$((missing + 1))
        days=("${days[@]:0:at}" "${days[@]:at+1}")
        ;;
    esac
  done
  if ((missing > 0)); then echo "update-tools: $missing nightlies that were asked for are not to be had"; fi
  echo "update-tools: nightly-$serves"
}

# What the server of toolchains has at this path.
asked() {
  curl -fsS --max-time 120 "${RUSTUP_DIST_SERVER:-https://static.rust-lang.org}/$1" 2>/dev/null
}

# The number of the newest stable compiler; nothing if it cannot be asked.
newest_stable() {
  asked dist/channel-rust-stable.toml |
    sed -n '/^\[pkg\.rust\]$/{n;s/^version = "\([0-9.]*\).*/\1/p}' || true
}

move_stable() {
  local toolchain=rust-toolchain.toml pinned newest had component
  local -a components=()
  pinned=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' "$toolchain")
  newest=$(newest_stable)
  if [[ -z $newest ]]; then
    echo "update-tools: stable $pinned: what is newest cannot be asked"
    return
  fi
  if ! is_newer "$newest" "$pinned"; then
    echo "update-tools: stable $pinned"
    return
  fi
  for component in $(sed -n 's/^components *= *\[\(.*\)\]/\1/p' "$toolchain" | tr -d '",'); do
    components+=(--component "$component")
  done
  had=$(rustup toolchain list | grep "^$newest-" || true)
  echo "update-tools: trying stable $newest"
  if timeout 600 rustup toolchain install "$newest" --profile minimal --no-self-update \
    "${components[@]}" >/dev/null 2>&1 && passes "stable $newest" stable_passes "$newest"; then
    sed -i "s/^channel *=.*/channel = \"$newest\"/" "$toolchain"
    echo "update-tools: stable $pinned -> $newest"
    return
  fi
  [[ -n $had ]] || rustup toolchain uninstall "$newest" >/dev/null 2>&1 || true
  echo "update-tools: stable $pinned stays"
}

# The library and its runner are published together, and one goes only with the other.
move_gungraun() {
  local manifest=crates/engine/Cargo.toml pinned newest before
  pinned=$(sed -n 's/^gungraun = "=\(.*\)"/\1/p' "$manifest")
  newest=$(newest_crate gungraun)
  if [[ -z $newest || $(newest_crate gungraun-runner) != "$newest" ]]; then
    echo "update-tools: gungraun $pinned: what is newest of it and of its runner cannot be asked, or differs"
    return
  fi
  if ! is_newer "$newest" "$pinned"; then
    echo "update-tools: gungraun $pinned"
    return
  fi
  before=$(mktemp -d)
  cp "$manifest" Cargo.lock "$before"
  sed -i "s/^gungraun = .*/gungraun = \"=$newest\"/" "$manifest"
  echo "update-tools: trying gungraun $newest"
  if passes "gungraun $newest" gungraun_passes; then
    echo "update-tools: gungraun $pinned -> $newest"
  else
    cp "$before/Cargo.toml" "$manifest"
    cp "$before/Cargo.lock" Cargo.lock
    echo "update-tools: gungraun $pinned stays"
  fi
  rm -rf "$before"
}

# Moves a tool of tools.env.
move_tool() {
  local name=$1 variable place newest='' sum='' wheel
  variable=${name^^}
  variable=${variable//-/_}
  place=$(mktemp -d)
  # The newest that has a binary, for to build one takes each fresh machine minutes; if
  # there is none at all any more, the newest. Its file is NAME-VERSION-...
  if /usr/bin/python3 -m pip --quiet --disable-pip-version-check download --no-deps \
    --only-binary :all: --platform manylinux_2_17_x86_64 -d "$place" \
    "astral-dev-toolchain-$name" >/dev/null 2>&1; then
    wheel=$(basename "$place"/*.whl)
    newest=$(cut -d- -f2 <<<"$wheel")
    sum=$(sha256sum "$place/$wheel" | cut -d' ' -f1)
  else
    newest=$(newest_crate "$name")
  fi
  rm -rf "$place"
  if [[ -z $newest ]]; then
    echo "update-tools: $name ${!variable}: what is newest cannot be asked"
    return
  fi
  # The newest that has a binary may be older than what was built.
  if ! is_newer "$newest" "${!variable}"; then
    echo "update-tools: $name ${!variable}"
    return
  fi
  sed -i "s/^$variable=.*/$variable=\${$variable:-$newest}/; s/^${variable}_SHA256=.*/${variable}_SHA256=$sum/" "$file"
  echo "update-tools: $name ${!variable} -> $newest${sum:+ (with a binary)}"
  scripts/tools.sh "$name"
}

move_nightly
move_stable
move_gungraun
for name in cargo-nextest cargo-fuzz cargo-deny; do move_tool "$name"; done
git diff --stat -- "$file" rust-toolchain.toml crates/engine/Cargo.toml Cargo.lock
