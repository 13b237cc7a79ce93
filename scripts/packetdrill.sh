#!/usr/bin/env bash
# Google's packetdrill on the kernel and on Longshore, each script in a network
# namespace of its own, as root. Not part of `make test`: its scripts are exact
# to the millisecond, so they run with real-time priority, one or two at a time.
#   packetdrill.sh [-u] [-s STACKS] [-v VARIANTS] [-j JOBS] [-r TIMES] [-o DIR] [SOURCE] [FILTER]
# STACKS    "kernel longshore" by default
# VARIANTS  "ipv4 mapped ipv6" by default
# JOBS      scripts run at once, 2 by default
# TIMES     a script that fails only by its timing is run again so often, 1 by
#           default
# DIR       where results are kept: results.tsv, failures.json and what each script
#           said
# SOURCE    a packetdrill checkout; fetched by git if there is none
# FILTER    only scripts whose path has this in it
# -u        what passes is what is expected from now on
#
# What passes on Longshore is listed in tests/packetdrill/expected.txt: a case of it
# that fails is a regression, and the script's status is 1. What tests Linux alone is
# in linux-only.txt beside it, and does not count.
#
# On Longshore the kernel is silenced on tun0, or it would answer in our place
# and a script pass falsely.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
longshore=$target/release/longshore

# One script on one stack: run.sh STACK VARIANT SCRIPT. Says PASS or FAIL, and
# in the second case packetdrill's first word on it.
run_one() {
  local stack=$1 variant=$2 script=$3
  local namespace=pdrill-$$ said status run
  local v4="--local_ip=192.168.0.1 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 \
    --remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb -D CODE=host_unreachable"
  local v6="--mtu=1520 --local_ip=fd3d:0a0b:17d6::1 --gateway_ip=fd3d:0a0b:17d6:8888::1 \
    --remote_ip=fd3d:fa7b:d17d::1 -D TFO_COOKIE=c1d1e9742a47a9bc"
  local options address=192.168.0.1/16
  case $variant in
    ipv4) options="--ip_version=ipv4 $v4 -D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR" ;;
    mapped) options="--ip_version=ipv4-mapped-ipv6 $v4 -D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR" ;;
    ipv6)
      options="--ip_version=ipv6 $v6 -D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR"
      address=fd3d:a0b:17d6::1/48
      ;;
  esac
  ip netns add "$namespace"
  # Expanded now: the variable is gone when the trap runs.
  # shellcheck disable=SC2064
  trap "ip netns del $namespace" EXIT
  ip -n "$namespace" link set lo up
  local -a wrap=(ip netns exec "$namespace" timeout -k 5 60)
  if [[ $stack == longshore ]]; then
    ip netns exec "$namespace" nft "add table inet silence
      add chain inet silence in { type filter hook prerouting priority -400; }
      add rule inet silence in iifname tun0 drop"
    wrap+=("$longshore" run --port packet:tun0 --addr "$address" --)
  fi
  if [[ -n $REAL_TIME ]]; then wrap=(chrt -r 5 "${wrap[@]}"); fi
  cd "$(dirname "$script")"
  # The options are words without spaces.
  for ((run = 0; run <= AGAIN; run++)); do
    status=0
    # shellcheck disable=SC2086
    said=$("${wrap[@]}" "$PACKETDRILL" --send_omit_free $options "$(basename "$script")" 2>&1) || status=$?
    if ((status == 0)) || ! grep -q 'timing error' <<<"$said"; then break; fi
  done
  local name=${script#"$SUITE"/}
  local log=$OUT/said/$stack/$variant/${name//\//,}
  printf '%s\n' "$said" >"$log"
  if ((status == 0)); then
    printf '%s\t%s\t%s\tPASS\t\n' "$stack" "$variant" "$name"
  else
    local why
    why=$(grep -v 'there is no interface tun0 yet' <<<"$said" | head -1 | tr '\t' ' ') || true
    printf '%s\t%s\t%s\tFAIL\t%s\n' "$stack" "$variant" "$name" "${why:-status $status}"
  fi
}

if [[ ${1:-} == --one ]]; then
  run_one "$2" "$3" "$4"
  exit
fi

stacks="kernel longshore" variants="ipv4 mapped ipv6" jobs=2 again=1 out=$target/packetdrill update=
while getopts us:v:j:r:o: option; do
  case $option in
    u) update=1 ;;
    s) stacks=$OPTARG ;;
    v) variants=$OPTARG ;;
    j) jobs=$OPTARG ;;
    r) again=$OPTARG ;;
    o) out=$OPTARG ;;
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
source=${1:-$target/packetdrill/source} filter=${2:-}

for command in ip nft tc sysctl ifconfig ethtool python3; do
  command -v "$command" >/dev/null || { echo "packetdrill: $command is missing" >&2; exit 1; }
done
if [[ ! -d $source ]]; then
  git clone --quiet --depth 1 https://github.com/google/packetdrill "$source"
fi
tool=$source/gtests/net/packetdrill
if [[ ! -x $tool/packetdrill ]]; then
  for command in gcc make bison flex; do
    command -v "$command" >/dev/null || { echo "packetdrill: $command is missing" >&2; exit 1; }
  done
  (cd "$tool" && ./configure >/dev/null && make packetdrill >/dev/null)
fi
if [[ $stacks == *longshore* && ! -x $longshore ]]; then
  echo "packetdrill: $longshore is missing: make build" >&2
  exit 1
fi

# The scripts choose CUBIC, which a namespace may only if the machine allows it.
allowed=$(sysctl -n net.ipv4.tcp_allowed_congestion_control)
if [[ " $allowed " != *" cubic "* ]]; then
  trap 'sysctl -q "net.ipv4.tcp_allowed_congestion_control=$allowed"' EXIT
  sysctl -q "net.ipv4.tcp_allowed_congestion_control=$allowed cubic"
fi

# A container, or a group of processes without real-time time, may refuse it.
real_time=yes
if ! chrt -r 5 true 2>/dev/null; then
  real_time=''
  echo "packetdrill: real-time priority is refused: scripts may fail by their timing" >&2
fi

export PACKETDRILL=$tool/packetdrill SUITE=$source/gtests/net OUT=$out AGAIN=$again REAL_TIME=$real_time
mkdir -p "$out"
for stack in $stacks; do
  for variant in $variants; do
    rm -rf "$out/said/$stack/$variant"
    mkdir -p "$out/said/$stack/$variant"
    while read -r script; do
      # A script whose name says so is for one version of IP alone.
      case $variant/$script in
        ipv6/*v4.pkt | ipv4/*v6.pkt | mapped/*v6.pkt) continue ;;
      esac
      if [[ $script == *"$filter"* ]]; then
        printf '%s\0%s\0%s\0' "$stack" "$variant" "$script"
      fi
    done < <(find "$SUITE/tcp" -name '*.pkt' | sort)
  done
done | xargs -0 -r -n 3 -P "$jobs" "$0" --one >"$out/results.tsv"

"$here/scripts/packetdrill_report.py" "$out" "$here/tests/packetdrill" ${update:+--update}
