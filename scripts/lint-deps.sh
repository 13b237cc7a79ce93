#!/usr/bin/env bash
# Checks licences, advisories and sources of the crates we use against deny.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
if ! cargo deny --version >/dev/null 2>&1; then
  echo "lint-deps: installing cargo-deny $version (several minutes, once)"
  cargo install --locked --quiet cargo-deny --version "$version"
fi
cargo deny --all-features check bans licenses sources
