# Shared by the scripts in this folder; sourced, not run. Sets `root`, the workspace's folder.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The Rust release that the workspace asks for: `rust-version` in Cargo.toml.
rust_wanted() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

# The version of the cargo that would run in the workspace now, or nothing.
cargo_version() { (cd "$root" && cargo --version 2>/dev/null) | cut -d' ' -f2; }

# at_least HAVE WANTED
at_least() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$2" ]; }

cargo_fits() { have cargo && at_least "$(cargo_version)" "$(rust_wanted)"; }

# Finds a cargo that is new enough: the one in PATH, then rustup's, then the newest release that rustup has installed. Exports what
# selects it and changes nothing else: neither the user's default toolchain nor any file. Asking for a version fetches nothing.
use_rust() {
    local toolchain
    export RUSTUP_AUTO_INSTALL=0
    if cargo_fits; then return 0; fi
    export PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
    hash -r
    if cargo_fits; then return 0; fi
    if have rustup; then
        for toolchain in $(rustup toolchain list 2>/dev/null | sed -nE 's/^(stable|[0-9][0-9.]*)(-[^ ]*)?( .*)?$/\1\2/p' | sort -rV); do
            export RUSTUP_TOOLCHAIN=$toolchain
            if cargo_fits; then return 0; fi
        done
        unset RUSTUP_TOOLCHAIN
    fi
    return 1
}
