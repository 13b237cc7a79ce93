#!/usr/bin/env bash
# Makes fuzz/seeds/packets anew, as root: frames that programs on Longshore and the kernel's
# own have really sent each other, one of each kind. What is in them is of these network
# namespaces alone. `make build` comes first.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
longshore=$(realpath "${LONGSHORE:-${CARGO_TARGET_DIR:-target}/release/longshore}")
[[ -x $longshore ]] || { echo "fuzz-seeds: $longshore is missing: make build" >&2; exit 1; }

place=$(mktemp -d)
space=longshore-seeds-$$
running=()
clean() {
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  ip netns del "$space" 2>/dev/null || true
  rm -rf "$place"
}
trap clean EXIT

ip netns add "$space"
inside() { ip netns exec "$space" "$@"; }
inside ip link set lo up
inside ip tuntap add dev seeds0 mode tap
inside ip address add 10.79.0.1/24 dev seeds0
inside ip address add fd79::1/64 dev seeds0 nodad
inside ip address add fe80::1/64 dev seeds0 nodad
inside ip link set seeds0 up
# DHCP, router advertisements and names.
inside dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --user=root \
  --bind-dynamic --interface=seeds0 --no-ping --no-resolv --dhcp-leasefile="$place/leases" \
  --dhcp-range=10.79.0.50,10.79.0.59,255.255.255.0,2m --dhcp-option=26,1400 \
  --dhcp-option=121,192.0.2.0/24,10.79.0.1 --enable-ra --dhcp-range=::,constructor:seeds0,ra-only \
  --address=/example.com/192.0.2.7 --address=/example.com/2001:db8::7 >/dev/null 2>&1 &
running+=($!)
inside /usr/bin/python3 -m http.server 8000 --bind :: --directory /usr/share/common-licenses >/dev/null 2>&1 &
running+=($!)
sleep 2

# A program that uses what there is.
cat >"$place/program.py" <<'PYTHON'
import socket, struct, time
def fetch(family, address, path):
    s = socket.socket(family)
    s.connect((address, 8000))
    s.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    while s.recv(65536): pass
for family, address in ((socket.AF_INET, "10.79.0.1"), (socket.AF_INET6, "fd79::1")):
    fetch(family, address, "/")
    fetch(family, address, "/GPL-3")
    # Refused; nobody there.
    s = socket.socket(family)
    try: s.connect((address, 9))
    except OSError: pass
    u = socket.socket(family, socket.SOCK_DGRAM)
    u.connect((address, 53))
    u.settimeout(1)
    name = b"\7example\3com\0"
    for kind in (1, 28):
        u.send(b"\1\2\1\0\0\1\0\0\0\0\0\0" + name + struct.pack(">HH", kind, 1))
        try: u.recv(512)
        except OSError: pass
    # To no port (an ICMP error quotes it), and longer than a packet (fragments).
    for payload in (b"x" * 3000, b"nobody"):
        u = socket.socket(family, socket.SOCK_DGRAM)
        u.sendto(payload, (address, 9))
        time.sleep(0.1)
    # Urgent data, and an abortive end.
    s = socket.socket(family)
    s.connect((address, 8000))
    s.send(b"!", socket.MSG_OOB)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
# Groups: reports of IGMP and MLD.
g = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
g.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + bytes(4))
h = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
h.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff15::77") + struct.pack("I", 0))
time.sleep(1.5)
PYTHON
inside sh -c 'sleep 3; ping -c 1 -W 1 10.79.0.50; ping -c 1 -W 1 ff02::1%seeds0' >/dev/null 2>&1 &
running+=($!)
inside timeout 60 "$longshore" run --port tap:seeds0 --addr dhcp --addr slaac \
  --capture "$place/capture.pcapng" -- /usr/bin/python3 "$place/program.py"

/usr/bin/python3 - "$place/capture.pcapng" fuzz/seeds/packets <<'PYTHON'
import hashlib, os, struct, sys
capture, to = sys.argv[1:]
data = open(capture, "rb").read()
frames, at = [], 0
while at + 12 <= len(data):
    kind, length = struct.unpack_from("<II", data, at)
    if kind == 6:  # an enhanced packet block
        (captured,) = struct.unpack_from("<I", data, at + 20)
        frames.append(data[at + 28 : at + 28 + captured])
    at += length
def options(b):
    kinds, i = [], 0
    while i < len(b) and b[i] != 0:
        kinds.append(b[i])
        i += 1 if b[i] == 1 or i + 1 == len(b) else max(b[i + 1], 1)
    return tuple(kinds)
def upper(protocol, b):
    if protocol == 6 and len(b) >= 20:
        return protocol, b[13], options(b[20 : (b[12] >> 4) * 4]), len(b) > (b[12] >> 4) * 4
    if protocol == 17 and len(b) >= 8:
        ports = tuple(p if p < 1024 else 0 for p in struct.unpack_from(">HH", b))
        # Of DHCP, the kind of message; it comes first of the options.
        return protocol, ports, b[250:251] if 67 in ports else len(b) > 200
    return protocol, b[:2]
def kind_of(frame):
    ether = frame[12:14]
    if ether == b"\x08\x00":
        ihl = (frame[14] & 15) * 4
        return ether, ihl, frame[20] & 0x3f > 0 or frame[21] > 0, upper(frame[23], frame[14 + ihl :])
    if ether == b"\x86\xdd":
        following, at, extensions = frame[20], 54, []
        while following in (0, 43, 44, 60) and at + 8 <= len(frame):
            extensions.append(following)
            following, at = frame[at], at + (8 if following == 44 else 8 * (frame[at + 1] + 1))
        return ether, tuple(extensions), upper(following, frame[at:])
    return ether, frame[20:22]
seen, kept, size = set(), [], 0
for frame in frames:
    # Of the long ones the beginning does: lengths are made right by the target.
    frame = frame[:400]
    kind = kind_of(frame)
    if kind not in seen:
        seen.add(kind)
        kept.append(frame)
os.makedirs(to, exist_ok=True)
for old in os.listdir(to):
    os.remove(f"{to}/{old}")
for frame in kept:
    open(f"{to}/{hashlib.sha256(frame).hexdigest()[:16]}", "wb").write(frame)
print(f"fuzz-seeds: {len(kept)} of {len(frames)} frames, {sum(map(len, kept))} bytes, in {to}")
PYTHON
