#!/usr/bin/env bash
# Installs the programs that make targets run beside Longshore (Debian's packages): those
# that it serves, the clients that load them, and the kernel's own tools. Does nothing where
# all of them are there. Starts no service.
#   install-deps.sh [GROUP...]      test, if none is named
set -euo pipefail

# group        command                      Debian package that brings it
#
# Releases differ. A file may have `*` for what is another in each; `3.N` stands for the version
# of the release's python3; of packages with `|` between them the first that the release has is
# taken.
NEEDED=(
  # The demonstration and all tests.
  "test        gcc                          gcc"
  "test        g++                          g++"
  "test        /usr/include/stdio.h         libc6-dev"
  "test        /usr/include/liburing.h      liburing-dev"
  "test        ip                           iproute2"
  "test        nginx                        nginx-light"
  "test        redis-server                 redis-server"
  "test        redis-benchmark              redis-tools"
  "test        memcached                    memcached"
  "test        haproxy                      haproxy"
  "test        iperf3                       iperf3"
  "test        wrk                          wrk"
  "test        curl                         curl"
  "test        wget                         wget"
  "test        ssh                          openssh-client"
  "test        /usr/sbin/sshd               openssh-server"
  "test        /usr/lib/openssh/sftp-server openssh-sftp-server"
  "test        /usr/bin/python3             python3"
  "test        /usr/lib/python3/dist-packages/pip python3-pip"
  "test        dig                          bind9-dnsutils"
  "test        dnsmasq                      dnsmasq-base"
  "test        setpriv                      util-linux"
  "test        /usr/sbin/apache2            apache2-bin"
  "test        socat                        socat"
  "test        mosquitto                    mosquitto"
  "test        mosquitto_pub                mosquitto-clients"
  "test        /usr/lib/postgresql/*/bin/postgres postgresql"
  "test        node                         nodejs"
  "test        nft                          nftables"
  "test        sysctl                       procps"
  "test        valgrind                     valgrind"
  "test        perf                         linux-perf|linux-tools-generic"
  "test        /usr/lib/python3.N/test/test_socket.py libpython3.N-testsuite"
  # make bench, make bench-tables
  "rates       sockperf                     sockperf"
  # make check-instructions
  "bench       gcc                          gcc"
  "bench       valgrind                     valgrind"
  # make claims, and whatever `longshore measure` runs
  "measure     nginx                        nginx-light"
  "measure     lighttpd                     lighttpd"
  "measure     wrk                          wrk"
  "measure     httperf                      httperf"
  "measure     redis-server                 redis-server"
  "measure     redis-benchmark              redis-tools"
  "measure     valgrind                     valgrind"
  "measure     perf                         linux-perf|linux-tools-generic"
  # make packetdrill
  "packetdrill gcc                          gcc"
  "packetdrill ip                           iproute2"
  "packetdrill tc                           iproute2"
  "packetdrill nft                          nftables"
  "packetdrill sysctl                       procps"
  "packetdrill ifconfig                     net-tools"
  "packetdrill ethtool                      ethtool"
  "packetdrill /usr/bin/python3             python3"
  "packetdrill git                          git"
  "packetdrill bison                        bison"
  "packetdrill flex                         flex"
  "packetdrill chrt                         util-linux"
  # make check-aarch64
  "aarch64     aarch64-linux-gnu-gcc        gcc-aarch64-linux-gnu"
  "aarch64     /usr/aarch64-linux-gnu/lib/libc.so.6 libc6-arm64-cross"
  "aarch64     /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross"
  "aarch64     qemu-aarch64-static          qemu-user-static"
  # make peers
  "peers       ip                           iproute2"
  "peers       slirp4netns                  slirp4netns"
  "peers       socat                        socat"
  "peers       setpriv                      util-linux"
  "peers       pip3                         python3-pip"
  # make compat
  "compat      gcc                          gcc"
  "compat      make                         make"
  "compat      cmake                        cmake"
  "compat      dpkg-source                  dpkg-dev"
  "compat      ip                           iproute2"
  "compat      nft                          nftables"
  "compat      sysctl                       procps"
  "compat      setpriv                      util-linux"
  "compat      /usr/bin/python3             python3"
  "compat      /usr/lib/python3.N/test/test_socket.py libpython3.N-testsuite"
)

(($# > 0)) || set -- test
for group in "$@"; do
  grep -q "^$group " < <(printf '%s\n' "${NEEDED[@]}") || { echo "usage: $0 [GROUP...]; no group $group" >&2; exit 2; }
done

# Debian's daemons live in sbin, which an ordinary user's PATH may lack.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# The version of the release's python3, also where that is not installed yet.
python_version() {
  /usr/bin/python3 -c 'import sys; print("3.%d" % sys.version_info[1])' 2>/dev/null ||
    apt-cache depends python3 2>/dev/null | sed -n 's/^ *Depends: python\(3\.[0-9]*\)$/\1/p'
}

# Whether apt knows a package.
known() { apt-cache show "$1" >/dev/null 2>&1; }

# Of packages with `|` between them, the first that apt knows, or else the first.
choose() {
  local package
  for package in ${1//|/ }; do
    if known "$package"; then break; fi
    package=${1%%|*}
  done
  echo "$package"
}

# Sets `missing` to the packages of these groups that are not there.
look() {
  local row group command package python
  python=$(python_version) || true
  missing=()
  for row in "${NEEDED[@]}"; do
    row=${row//3.N/${python:-3.N}}
    read -r group command package <<<"$row"
    [[ " $* " == *" $group "* ]] || continue
    # A program, or a file.
    command -v "$command" >/dev/null 2>&1 || { [[ $command == /* ]] && compgen -G "$command" >/dev/null; } ||
      missing+=("$(choose "$package")")
  done
}

# Prints those of these packages that apt does not know.
unknown() {
  local package
  for package in "$@"; do known "$package" || echo "$package"; done
}

look "$@"
if ((${#missing[@]} > 0)) && [[ -d /etc/apt ]]; then
  # One at a time on the machine, also of other clones: apt-get does not wait for another
  # that fetches lists, and the first that is done would take the policy below away.
  exec 9</etc/apt
  flock 9
  look "$@"
fi

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
log=$(mktemp)
clean() {
  [ "$made_policy" = no ] || "${as_root[@]}" rm -f "$policy"
  rm -f "$log"
}
trap clean EXIT
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  made_policy=yes
fi

# What is installed must not hold the lock, if it stays.
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}" >"$log" 2>&1 9<&-
}
# The package lists of a fresh image may be absent or old: fetch them once, and
# again only if the installation fails.
if [[ -n $(unknown "${missing[@]}") ]]; then
  echo "install-deps: fetching the package lists"
  "${as_root[@]}" apt-get update -qq
  look "$@"
fi
mapfile -t nowhere < <(unknown "${missing[@]}")
if ((${#nowhere[@]} > 0)); then
  release=$(. /etc/os-release && echo "$PRETTY_NAME")
  echo "install-deps: $release, as apt is set up here, does not have: ${nowhere[*]}" >&2
  exit 1
fi
echo "install-deps: installing ${missing[*]}"
if ! install; then
  echo "install-deps: that failed; once more with fresh package lists"
  "${as_root[@]}" apt-get update -qq
  install || { cat "$log" >&2; exit 1; }
fi
echo "install-deps: done"
