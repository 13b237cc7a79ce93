#!/usr/bin/env bash
# Longshore beside others that carry the connections of a program that runs without the
# kernel's stack, as root: the same small programs, served by each in turn, and asked by the
# same programs of the kernel. Not part of `make test`.
#   peers.sh [ROUNDS]     3 by default; medians are shown
#
# kernel       the kernel's own stack, both ends in one namespace
# longshore    an engine on a TAP device; --expose: a port of the kernel is relayed to it
# pasta        (passt) by its own TCP, as from another machine: to an address that is not of
#              the loopback; pasta_splice: to the loopback, where it moves bytes from one socket
#              of the kernel to another
# slirp4netns  with a forwarded port, and the largest packets that it takes
# runsc        gVisor with its own stack, on a veth
# smoltcp      a library in the program, which is another than the others' (tests/peers/smoltcp),
#              on a TAP device with the largest packets
#
# peers-fetch.sh has brought what Debian 12 has not, or written down why it could not.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
if [[ ${1:-} != --inside ]]; then
  ((EUID == 0)) || { echo "peers: network namespaces need root" >&2; exit 1; }
  exec unshare --net "$0" --inside "$@"
fi
shift
rounds=${1:-3}

host=192.0.2.1        # The kernel's, on a link that leads nowhere (RFC 5737).
outside=198.51.100.1  # Its address on the link to gVisor's namespace,
guest=198.51.100.2    # and gVisor's.
milliseconds=1000
round_trips=5000
timeout_s=8

work=$(mktemp -d)
server=
stop() {
  [[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true
  [[ -z $server ]] || wait "$server" 2>/dev/null || true
  # What it had started ends a little later, and has the port until then.
  [[ -z $server ]] || sleep 0.3
  server=
}
trap 'stop; rm -rf "$work"' EXIT
# pasta gives root up, so what it starts must be open to all.
chmod 755 "$work"
longshore=$work/longshore
target=${CARGO_TARGET_DIR:-$here/target}
cp "$target"/release/{longshore,liblongshore_preload.so} "$work"
# shellcheck source=scripts/tools.env
. "$here/scripts/tools.env"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/peers
RUNSC=$cache/gvisor-$GVISOR/runsc
SMOLTCP=$target/peers/release/longshore-peer-smoltcp
# Why a stack cannot run here.
declare -A cannot
why() { cat "$cache/$1.why" 2>/dev/null || echo "scripts/peers-fetch.sh has not brought it"; }
if ! cp -r "$cache/pasta-$PASST" "$work/pasta" 2>/dev/null; then
  cannot[pasta]=$(why pasta)
  cannot[pasta_splice]=${cannot[pasta]}
fi
if [[ ! -x $RUNSC ]]; then cannot[runsc]=$(why gvisor); fi
if [[ ! -x $SMOLTCP || -s $cache/smoltcp.why ]]; then cannot[smoltcp]=$(why smoltcp); fi
# VPP with its host stack.
cannot[vpp]="Debian does not have it (12, 13, unstable), nor PyPI"

ip link set lo up
ip link add outer type veth peer name inner
ip link set inner up
ip address add $host/24 dev outer
ip link set outer up
ip route add default via 192.0.2.254

# Where a peer's server is reached.
address_of() {
  case $1 in
    longshore) echo 10.77.0.2 ;;
    runsc | smoltcp) echo $guest ;;
    pasta_splice) echo 127.0.0.1 ;;
    *) echo $host ;;
  esac
}

# measure PEER SERVER PORT CLIENT AMOUNT: the client's first figure, or nothing.
measure() {
  local peer=$1 program=$2 port=$3 client=$4 amount=$5 at status said=
  at=$(address_of "$peer")
  # Whatever it starts ends with it.
  unshare --pid --fork --kill-child --mount-proc "$here/scripts/peers-serve.sh" \
    "$peer" "$program" "$port" </dev/null >"$work/$peer.log" 2>&1 &
  server=$!
  for _ in $(seq 50); do
    kill -0 "$server" 2>/dev/null || break
    # Who relays accepts before there is a server.
    status=0
    said=$(timeout -k 1 $timeout_s "$longshore" __program "$client" "$at:$port" "$amount" \
      2>/dev/null) || status=$?
    case $status in
      0) break ;;
      # It was connected, or about to be, and then nothing came.
      124 | 137) echo "no answer, or nothing after the first bytes, for $timeout_s s" >>"$work/$peer.log"; said=; break ;;
    esac
    said=
    sleep 0.1
  done
  stop
  ip link delete near 2>/dev/null || true
  read -r said _ <<<"$said" || true
  echo "$said"
}
export longshore host outside guest work RUNSC SMOLTCP

median() { sort -g | awk '{ all[NR] = $1 } END { if (NR) printf "%.3g", all[int((NR + 1) / 2)] }'; }

peers=(kernel longshore expose pasta pasta_splice slirp4netns runsc smoltcp vpp)
measurements=("source 5001 pull $milliseconds" "sink 5002 push $milliseconds" "echo 5003 ping $round_trips")
for ((round = 1; round <= rounds; round++)); do
  for peer in "${peers[@]}"; do
    [[ -z ${cannot[$peer]:-} ]] || continue
    for what in "${measurements[@]}"; do
      read -r program port client amount <<<"$what"
      figure=$(measure "$peer" "$program" "$port" "$client" "$amount")
      if [[ -z $figure ]]; then
        cannot[$peer]="$program, in round $round: $(grep -v '^$' "$work/$peer.log" | tail -1)"
        break
      fi
      echo "$figure" >>"$work/$peer.$program"
    done
  done
done

printf '%-12s %14s %14s %14s\n' 'server on' 'from it, Gb/s' 'to it, Gb/s' 'round trip, us'
for peer in "${peers[@]}"; do
  if [[ -n ${cannot[$peer]:-} ]]; then
    printf '%-12s cannot: %s\n' "$peer" "${cannot[$peer]}"
    continue
  fi
  printf '%-12s %14s %14s %14s\n' "$peer" "$(median <"$work/$peer.source")" \
    "$(median <"$work/$peer.sink")" "$(median <"$work/$peer.echo")"
done
[[ -z ${cannot[longshore]:-} && -z ${cannot[expose]:-} ]]
