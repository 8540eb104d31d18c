# The beginning of each script that runs in the guest of scripts/test-kernels: tests/kernels/boot puts it before the script.
# shellcheck shell=bash
#
# A kernel is asked what it can do before that is expected of it. What it cannot do is not shown, and the script says so: it ends with
# code 3, after all that could be shown has passed.
set -euo pipefail

# The tree has mawk without the name that an installation gives it.
awk() { mawk "$@"; }

say() { printf '%s\n' "$*"; }

fail() {
    say "FAILED: $*"
    exit 1
}

# Ends the script: nothing more can be shown here.
skip() {
    say "SKIPPED: $*"
    exit 3
}

# Notes that a part could not be shown; the script goes on, and ends by `finish`.
missed=
partly() {
    say "SKIPPED: $*"
    missed=yes
}

finish() {
    say "up for $(cut -d' ' -f1 /proc/uptime) s"
    [ -z "$missed" ] || exit 3
    exit 0
}

# await WHAT COMMAND...: until the command succeeds. Longer than any machine takes that gets on at all; the reason is said.
await() {
    local what=$1 tries
    shift
    for tries in $(seq 600); do
        if "$@"; then return; fi
        # Says that it is still at it: the host ends a guest that says nothing.
        if [ $((tries % 100)) -eq 0 ]; then say "waiting for $what"; fi
        sleep 0.2
    done
    fail "$what: not after $tries looks"
}

# The links of a driver, in their order.
links_of() {
    local link
    for link in /sys/class/net/*; do
        if [ "$(basename "$(readlink -f "$link/device/driver")" 2>/dev/null)" = "$1" ]; then basename "$link"; fi
    done
}

carrier() { [ "$(cat "/sys/class/net/$1/carrier" 2>/dev/null || true)" = 1 ]; }
wait_for_carrier() { await "a carrier of $1" carrier "$1"; }

# Whether the kernel has a driver or module, built in or not.
has_module() { [ -e "/sys/module/$1" ] || modprobe --dry-run --quiet "$1"; }

# Whether the kernel has a qdisc, tried at a link of four queues that nobody uses.
has_qdisc() {
    local found=
    ip link add weft-probe numtxqueues 4 numrxqueues 4 type veth peer name weft-probe1 2>/dev/null || return 1
    if tc qdisc replace dev weft-probe root handle 1: "$1" 2>/dev/null; then found=yes; fi
    ip link del weft-probe
    [ -n "$found" ]
}

# Whether programs may be attached to tracepoints with the kernel's own types.
has_bpf_tracing() { [ -e /sys/kernel/btf/vmlinux ]; }

# needs_module NAME...: or there is nothing to show.
needs_module() {
    local module
    for module in "$@"; do
        has_module "$module" || skip "Linux $(uname -r) has no module $module"
        modprobe "$module"
    done
}

say "Linux $(uname -r), up for $(cut -d' ' -f1 /proc/uptime) s"
