#!/usr/bin/env bash
# Installs what the demonstration and the tests run beside Longshore: the
# programs that it serves, the clients that load them, and iproute2 for the
# namespaces. Does nothing where all of it is there. Starts no service.
set -euo pipefail

# command                      Debian package that brings it
NEEDED=(
  "gcc                         gcc"
  "ip                          iproute2"
  "nginx                       nginx-light"
  "redis-server                redis-server"
  "redis-benchmark             redis-tools"
  "memcached                   memcached"
  "haproxy                     haproxy"
  "iperf3                      iperf3"
  "wrk                         wrk"
  "curl                        curl"
  "wget                        wget"
  "ssh                         openssh-client"
  "/usr/sbin/sshd              openssh-server"
  "/usr/lib/openssh/sftp-server openssh-sftp-server"
  "/usr/bin/python3            python3"
  "dig                         bind9-dnsutils"
  "dnsmasq                     dnsmasq-base"
  "setpriv                     util-linux"
  "/usr/sbin/apache2           apache2-bin"
  "socat                       socat"
  "mosquitto                   mosquitto"
  "mosquitto_pub               mosquitto-clients"
  "/usr/lib/postgresql/15/bin/postgres postgresql-15"
  "node                        nodejs"
)
# Only the instruction counts need these.
NEEDED_BY_BENCHMARKS=(
  "valgrind                    valgrind"
)

case "${1:-}" in
  "") ;;
  --bench) NEEDED+=("${NEEDED_BY_BENCHMARKS[@]}") ;;
  *) echo "usage: $0 [--bench]" >&2; exit 2 ;;
esac

# Debian's daemons live in sbin, which an ordinary user's PATH may lack.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

missing=()
for row in "${NEEDED[@]}"; do
  read -r command package <<<"$row"
  command -v "$command" >/dev/null 2>&1 || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "install-deps: all programs are there"
  exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
  echo "install-deps: this is no Debian system; install these yourself: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null 2>&1 || {
    echo "install-deps: run as root, or install these yourself: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

# Debian starts a daemon as soon as it is installed, unless this file forbids it.
policy=/usr/sbin/policy-rc.d
made_policy=no
restore_policy() { [ "$made_policy" = no ] || "${as_root[@]}" rm -f "$policy"; }
trap restore_policy EXIT
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  made_policy=yes
fi

echo "install-deps: installing ${missing[*]}"
log=$(mktemp)
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}" >"$log" 2>&1
}
# The package lists of a fresh image may be absent or old: fetch them once, and
# again only if the installation fails.
if ! apt-cache show "${missing[0]}" >/dev/null 2>&1; then
  echo "install-deps: fetching the package lists"
  "${as_root[@]}" apt-get update -qq
fi
if ! install; then
  echo "install-deps: that failed; once more with fresh package lists"
  "${as_root[@]}" apt-get update -qq
  install || { cat "$log" >&2; rm -f "$log"; exit 1; }
fi
rm -f "$log"
echo "install-deps: done"
