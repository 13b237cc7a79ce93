#!/usr/bin/env bash
# Serves one of the small programs by one stack until it is killed; peers.sh runs it, in
# namespaces of its own, with the variables that it exports.
#   peers-serve.sh PEER PROGRAM PORT
set -euo pipefail

: "${longshore:?}" "${host:?}" "${outside:?}" "${guest:?}" "${work:?}" "${RUNSC:?}" "${SMOLTCP:?}"
peer=$1 port=$3
program=("$longshore" __program "$2" "0.0.0.0:$port")

# A network namespace of its own; says whose.
own_namespace() {
  unshare --net sleep infinity &
  inside=$!
  until [[ $(readlink "/proc/$inside/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do
    sleep 0.05
  done
}

serve_kernel() { "${program[@]}"; }

serve_longshore() { "$longshore" run --addr 10.77.0.2/24 -- "${program[@]}"; }

serve_expose() { "$longshore" run --expose "$host:$port:$port" -- "${program[@]}"; }

# As an ordinary user: it gives root up, and could then not enter what root made. By the C
# library that came with it, which is newer than Debian 12's.
serve_pasta() {
  local binary=pasta
  ! grep -qw avx2 /proc/cpuinfo || binary=pasta.avx2
  # Not everywhere may such a user open it. This mount is of this namespace alone.
  rm -f "$work/tun"
  mknod --mode=666 "$work/tun" c 10 200
  mount --bind "$work/tun" /dev/net/tun
  setpriv --reuid=65534 --regid=65534 --clear-groups \
    "$work/pasta/ld-linux-x86-64.so.2" --library-path "$work/pasta" "$work/pasta/$binary" \
    --config-net --foreground --tcp-ports "$port" -- "${program[@]}"
}

serve_pasta_splice() { serve_pasta; }

serve_slirp4netns() {
  local inside
  own_namespace
  rm -f "$work/slirp"
  slirp4netns --configure --mtu=65520 --api-socket="$work/slirp" "$inside" tap0 &
  until [[ -S $work/slirp ]]; do sleep 0.05; done
  printf '{"execute": "add_hostfwd", "arguments": {"proto": "tcp", "host_addr": "%s",
    "host_port": %d, "guest_addr": "10.0.2.100", "guest_port": %d}}' "$host" "$port" "$port" |
    socat -t2 - "UNIX-CONNECT:$work/slirp"
  nsenter --target "$inside" --net "${program[@]}"
}

# runsc takes the address and the routes from the kernel's side of the namespace, and reads
# packets from the interface's packet socket. Its platform is the one that it takes by itself.
serve_runsc() {
  local inside
  own_namespace
  ip link add near type veth peer name far netns "$inside"
  ip address add "$outside/24" dev near
  ip link set near up
  nsenter --target "$inside" --net sh -c "ip link set lo up; ip address add $guest/24 dev far
    ip link set far up; ip route add default via $outside"
  mkdir -p "$work/bundle"
  cat >"$work/bundle/config.json" <<JSON
{"ociVersion": "1.0.0", "root": {"path": "/", "readonly": true},
 "process": {"args": ["${program[0]}", "${program[1]}", "${program[2]}", "${program[3]}"],
             "cwd": "/", "user": {"uid": 0, "gid": 0}},
 "linux": {"namespaces": [{"type": "network", "path": "/proc/$inside/ns/net"},
   {"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]}}
JSON
  rm -rf "$work/runsc"
  "$RUNSC" --root="$work/runsc" --ignore-cgroups --network=sandbox run --bundle "$work/bundle" "peer$port"
}

# The program and its stack in one process, on a TAP device with the largest packets.
serve_smoltcp() {
  ip tuntap add near mode tap
  ip link set near mtu 65521 up
  ip address add "$outside/24" dev near
  "$SMOLTCP" near "$guest/24" "${program[2]}" "$port"
}

"serve_$peer"
