#!/usr/bin/env bash
# Google's packetdrill on the kernel and on Longshore, each script in a network
# namespace of its own, as root. Not part of `make test`: its scripts are exact
# to the millisecond and want an idle machine.
#   packetdrill.sh [-s STACKS] [-v VARIANTS] [-j JOBS] [-r TIMES] [-o DIR] [SOURCE] [FILTER]
# STACKS    "kernel longshore" by default
# VARIANTS  "ipv4 mapped ipv6" by default
# JOBS      scripts run at once, 2 by default
# TIMES     a script that fails only by its timing is run again so often, 0 by
#           default: for a machine that is not idle
# DIR       where results are kept: results.tsv and what each script said
# SOURCE    a packetdrill checkout; fetched by git if there is none
# FILTER    only scripts whose path has this in it
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
    why=$(grep -v 'there is no interface tun0 yet' <<<"$said" | head -1 | tr '\t' ' ')
    printf '%s\t%s\t%s\tFAIL\t%s\n' "$stack" "$variant" "$name" "${why:-status $status}"
  fi
}

if [[ ${1:-} == --one ]]; then
  run_one "$2" "$3" "$4"
  exit
fi

stacks="kernel longshore" variants="ipv4 mapped ipv6" jobs=2 again=0 out=$target/packetdrill
while getopts s:v:j:r:o: option; do
  case $option in
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

for command in ip nft tc sysctl ifconfig python3; do
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

export PACKETDRILL=$tool/packetdrill SUITE=$source/gtests/net OUT=$out AGAIN=$again
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
      [[ $script == *"$filter"* ]] && printf '%s\0%s\0%s\0' "$stack" "$variant" "$script"
    done < <(find "$SUITE/tcp" -name '*.pkt' | sort)
  done
done | xargs -0 -r -n 3 -P "$jobs" "$0" --one >"$out/results.tsv"

# Categories are the suite's folders.
sort "$out/results.tsv" | awk -F'\t' '
  { split($3, part, "/"); key = part[2]; cell = key SUBSEP $1
    if (!(key in seen)) { seen[key] = 1; order[++count] = key }
    all[cell]++; total[$1]++
    if ($4 == "PASS") { good[cell]++; passed[$1]++; ok[$1, $2, $3] = 1 }
    case_of[$2 SUBSEP $3] = 1 }
  END {
    printf "%-22s %14s %14s\n", "passed of all", "kernel", "Longshore"
    for (i = 1; i <= count; i++) {
      k = order[i]
      printf "%-22s %7d of %3d %7d of %3d\n", k, good[k, "kernel"], all[k, "kernel"], good[k, "longshore"], all[k, "longshore"]
    }
    printf "%-22s %7d of %3d %7d of %3d\n", "together", passed["kernel"], total["kernel"], passed["longshore"], total["longshore"]
    for (c in case_of) {
      split(c, p, SUBSEP)
      if (ok["kernel", p[1], p[2]]) { base++; if (ok["longshore", p[1], p[2]]) both++ }
    }
    if (base && total["longshore"]) printf "of %d that pass on the kernel, %d pass on Longshore: %.1f %%\n", base, both, 100 * both / base
  }'
echo "each case, with what packetdrill said: $out/results.tsv"
