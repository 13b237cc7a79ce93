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
# runsc        gVisor with its own stack, by ptrace, which every machine has
#
# VPP with its host stack is not here: Debian does not have it.
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
cp "${CARGO_TARGET_DIR:-$here/target}"/release/{longshore,liblongshore_preload.so} "$work"

ip link set lo up
ip link add outer type veth peer name inner
ip link set inner up
ip address add $host/24 dev outer
ip link set outer up
ip route add default via 192.0.2.254

# serve_PEER PROGRAM PORT: serves until it is killed.
serve_kernel() { "$longshore" __program "$1" "0.0.0.0:$2"; }
serve_longshore() {
  "$longshore" run --addr 10.77.0.2/24 -- "$longshore" __program "$1" "0.0.0.0:$2"
}
serve_expose() {
  "$longshore" run --expose "$host:$2:$2" -- "$longshore" __program "$1" "0.0.0.0:$2"
}
serve_pasta() {
  setpriv --reuid=65534 --regid=65534 --clear-groups \
    pasta --config-net --foreground --tcp-ports "$2" -- "$longshore" __program "$1" "0.0.0.0:$2"
}
serve_pasta_splice() { serve_pasta "$@"; }
# A namespace of its own; says whose.
own_namespace() {
  unshare --net sleep infinity &
  inside=$!
  until [[ $(readlink "/proc/$inside/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do
    sleep 0.05
  done
}
serve_slirp4netns() {
  local inside
  own_namespace
  slirp4netns --configure --mtu=65520 --api-socket="$work/slirp" "$inside" tap0 &
  until [[ -S $work/slirp ]]; do sleep 0.05; done
  printf '{"execute": "add_hostfwd", "arguments": {"proto": "tcp", "host_addr": "%s",
    "host_port": %d, "guest_addr": "10.0.2.100", "guest_port": %d}}' "$host" "$2" "$2" |
    socat -t2 - "UNIX-CONNECT:$work/slirp"
  nsenter --target "$inside" --net "$longshore" __program "$1" "0.0.0.0:$2"
}
serve_runsc() {
  local inside
  own_namespace
  ip link add near type veth peer name far netns "$inside"
  ip address add $outside/24 dev near
  ip link set near up
  nsenter --target "$inside" --net sh -c "ip link set lo up; ip address add $guest/24 dev far
    ip link set far up; ip route add default via $outside"
  mkdir -p "$work/bundle"
  cat >"$work/bundle/config.json" <<JSON
{"ociVersion": "1.0.0", "root": {"path": "/", "readonly": true},
 "process": {"args": ["$longshore", "__program", "$1", "0.0.0.0:$2"], "cwd": "/",
             "user": {"uid": 0, "gid": 0}},
 "linux": {"namespaces": [{"type": "network", "path": "/proc/$inside/ns/net"},
   {"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]}}
JSON
  runsc --root="$work/runsc" --platform=ptrace --ignore-cgroups --network=sandbox \
    run --bundle "$work/bundle" "peer$2"
}

# Where a peer's server is reached.
address_of() {
  case $1 in
    longshore) echo 10.77.0.2 ;;
    runsc) echo $guest ;;
    pasta_splice) echo 127.0.0.1 ;;
    *) echo $host ;;
  esac
}

# measure PEER SERVER PORT CLIENT AMOUNT: the client's first figure, or nothing.
measure() {
  local peer=$1 program=$2 port=$3 client=$4 amount=$5 at status said=
  at=$(address_of "$peer")
  export -f "serve_$peer" serve_pasta own_namespace
  rm -f "$work/slirp"
  # Whatever it starts ends with it.
  unshare --pid --fork --kill-child --mount-proc bash -c "serve_$peer $program $port; true" </dev/null >"$work/$peer.log" 2>&1 &
  server=$!
  for _ in $(seq 50); do
    kill -0 "$server" 2>/dev/null || break
    # Who relays accepts before there is a server.
    status=0
    said=$(timeout -k 1 $timeout_s "$longshore" __program "$client" "$at:$port" "$amount" \
      2>/dev/null) || status=$?
    case $status in
      0) break ;;
      # It was connected, and then nothing came.
      124 | 137) echo "nothing comes after the first bytes" >>"$work/$peer.log"; said=; break ;;
    esac
    said=
    sleep 0.1
  done
  stop
  ip link delete near 2>/dev/null || true
  read -r said _ <<<"$said" || true
  echo "$said"
}
export longshore host outside guest work

median() { sort -g | awk '{ all[NR] = $1 } END { if (NR) printf "%.3g", all[int((NR + 1) / 2)] }'; }

peers=(kernel longshore expose pasta pasta_splice slirp4netns runsc)
measurements=("source 5001 pull $milliseconds" "sink 5002 push $milliseconds" "echo 5003 ping $round_trips")
declare -A cannot
for ((round = 1; round <= rounds; round++)); do
  for peer in "${peers[@]}"; do
    [[ -z ${cannot[$peer]:-} ]] || continue
    for what in "${measurements[@]}"; do
      read -r program port client amount <<<"$what"
      figure=$(measure "$peer" "$program" "$port" "$client" "$amount")
      if [[ -z $figure ]]; then
        cannot[$peer]="$program: $(grep -v '^$' "$work/$peer.log" | tail -1)"
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
