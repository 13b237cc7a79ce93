#!/usr/bin/env bash
# Checks the crates that we use: licences, sources and duplicates against deny.toml, and
# RustSec's advisories. Those are in a git repository on GitHub, which not every machine
# reaches: where it cannot be fetched they are skipped, and that is said.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
scripts/tools.sh cargo-deny
cargo deny --all-features check bans licenses sources
if ! timeout 120 cargo deny fetch db; then
  skip advisories "RustSec's database cannot be fetched, so known vulnerabilities were not looked for"
fi
cargo deny --all-features check --disable-fetch advisories
