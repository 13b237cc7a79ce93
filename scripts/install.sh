#!/usr/bin/env bash
# Puts what was built where users expect it, or takes it away again.
#   install.sh [--remove] DIRECTORY
# DIRECTORY has the release build. PREFIX (/usr/local by default) is where it will be
# used, and DESTDIR, if it is set, goes before it, as packagers want it. SYSCONFDIR (/etc by
# default) gets a configuration, unless one is there; one that was changed is not removed.
set -euo pipefail
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
SYSCONFDIR=${SYSCONFDIR:-/etc}
ROOT=${DESTDIR:-}$PREFIX
CONFIG=${DESTDIR:-}$SYSCONFDIR/longshore/engine.toml
EXAMPLE=$ROOT/share/doc/longshore/engine.toml

FILES=(
  bin/longshore
  lib/longshore/liblongshore_preload.so
  lib/systemd/system/longshore.service
  share/man/man1/longshore{,-run,-engine,-stat,-ss}.1
  share/man/man1/longshore-measure{,-all,-bus,-characterize,-cpu,-host,-immediate,-latency,-path,-port,-predict,-sweep}.1
  share/bash-completion/completions/longshore
  share/zsh/site-functions/_longshore
  share/fish/vendor_completions.d/longshore.fish
  share/doc/longshore/engine.toml
)
# The documents that the manual names, and that those lead to.
DOCUMENTS=(docs/*.md)
for document in "${DOCUMENTS[@]}"; do
  FILES+=("share/doc/longshore/${document#docs/}")
done

if [[ ${1:-} == --remove ]]; then
  if cmp -s "$EXAMPLE" "$CONFIG"; then
    rm -f "$CONFIG"
    rmdir --ignore-fail-on-non-empty "$(dirname "$CONFIG")" 2>/dev/null || true
  fi
  (cd "$ROOT" && rm -f "${FILES[@]}")
  rmdir --ignore-fail-on-non-empty "$ROOT/lib/longshore" "$ROOT/share/doc/longshore" \
    2>/dev/null || true
  echo "install: removed from $ROOT"
  exit 0
fi

built=${1:?"usage: $0 [--remove] DIRECTORY"}
for file in longshore liblongshore_preload.so; do
  if [[ ! -f $built/$file ]]; then
    echo "install: $built/$file is missing; run \`make build\` first" >&2
    exit 1
  fi
done
# A running program keeps the old files: `install` makes new ones.
install -D -m 755 "$built/longshore" "$ROOT/bin/longshore"
install -D -m 644 "$built/liblongshore_preload.so" "$ROOT/lib/longshore/liblongshore_preload.so"
install -d "$ROOT/lib/systemd/system"
sed "s|@PREFIX@|$PREFIX|; s|/etc/longshore|$SYSCONFDIR/longshore|" packaging/longshore.service >"$ROOT/lib/systemd/system/longshore.service"
"$built/longshore" __documents "$ROOT/share"
install -d "$(dirname "$EXAMPLE")" "$(dirname "$CONFIG")"
install -m 644 "${DOCUMENTS[@]}" "$(dirname "$EXAMPLE")"
"$built/longshore" engine --example-config >"$EXAMPLE"
if [[ ! -e $CONFIG ]]; then
  install -m 644 "$EXAMPLE" "$CONFIG"
  echo "install: $CONFIG is a configuration to start from"
fi
for file in "${FILES[@]}"; do
  if [[ ! -f $ROOT/$file ]]; then
    echo "install: $ROOT/$file was not made" >&2
    exit 1
  fi
done
echo "install: longshore and its manual are in $ROOT (\`man longshore-run\`)"
