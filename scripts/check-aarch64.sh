#!/usr/bin/env bash
# On a machine with an x86-64 processor: compiles the workspace for AArch64 with warnings denied,
# runs its unit tests under qemu's emulation of a user's program, and builds the program and the
# shim. What needs a kernel's part that qemu does not have is left out, each with its reason.
# On AArch64 itself `make test` says more.
set -euo pipefail
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

if [[ $(uname -m) == aarch64 ]]; then
  echo "check-aarch64: this is one: make test"
  exit 0
fi
scripts/install-deps.sh aarch64
scripts/tools.sh stable aarch64 cargo-nextest

TRIPLE=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"

# Tests that need what qemu 7.2, as Debian 12 has it, does not have: what that is, and which tests.
LACKING=()
lacks() {
  echo "check-aarch64: not run under qemu, which has no $1: ${*:2}"
  LACKING+=("${@:2}")
}
lacks 'MADV_POPULATE_WRITE' a_page_taken_before_keeps_what_is_in_it
lacks 'mappings beyond memory and swap (MAP_NORESERVE)' what_was_agreed_and_how_much_there_is_decides_what_is_taken
lacks 'filters of a TAP device (TUNATTACHFILTER)' of_syns_as_many_come_as_are_wanted
lacks 'seccomp and Landlock' a_forbidden_call_ends_the_process a_forbidden_call_is_named relays_have_sockets_and_no_others what_is_given_up_is_gone
lacks "processor's speed" frames_that_come_one_by_one_are_no_flood simulation_delivers room_to_write_shows_nothing_that_was_received 'package(longshore-tcp) and binary(sim)'
lacks '/proc/self/exe of its own, nor the programs of such a system' ordinary_programs_have_no_obstacle this_program_has_no_obstacle
lacks 'offloads of a packet socket (PACKET_VNET_HDR)' 'package(longshore-ports) and binary(packet)'
# Tests that start the program have the kernel start it.
/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 --version >/dev/null 2>&1 ||
  lacks 'entry in binfmt_misc on this machine' 'package(longshore-cli) and binary(/^(private|run|show)$/)'

# A test's name, or a filter of nextest's.
left_out='not package(longshore-e2e) and not package(longshore-measure)'
for what in "${LACKING[@]}"; do
  [[ $what == *'('* ]] || what="test(/$what/)"
  left_out+=" and not ($what)"
done

status=0
scripts/step.sh 'clippy for AArch64' cargo clippy --workspace --all-targets --locked --quiet --target "$TRIPLE" -- -D warnings || status=1
scripts/step.sh 'build for AArch64' cargo build --locked --quiet --target "$TRIPLE" -p longshore-cli -p longshore-preload || status=1
scripts/step.sh 'unit tests for AArch64' scripts/nextest.sh --workspace --locked --target "$TRIPLE" \
  -E "$left_out" || status=1
exit "$status"
