# Shared by the scripts that make and test Debian packages; sourced after lib.sh, not run.
# shellcheck shell=bash disable=SC2154

SKIPPED=3

# skip WORDS...: ends the script; this machine cannot do it.
skip() {
    printf 'skipped: %s\n' "$*"
    exit $SKIPPED
}

# need_packages "PROGRAM PACKAGE"...: installs the packages whose programs are missing. A program may be a path. With
# WEFT_OFFLINE nothing is installed or fetched, and the script skips instead; tests set it.
need_packages() {
    local need
    local -a missing=()
    for need in "$@"; do
        have "${need% *}" || [ -e "${need% *}" ] || missing+=("${need#* }")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    [ -z "${WEFT_OFFLINE:-}" ] || skip "these Debian packages are missing: ${missing[*]}"
    have apt-get || skip "these Debian packages are missing, and there is no apt-get: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || skip "these Debian packages are missing; as root: apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get update --quiet >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends --no-remove \
        "${missing[@]}" >/dev/null || skip "apt-get could not install ${missing[*]}"
}

# The version of the package: that of Cargo.toml at its tag, otherwise with the commit's day and name. A changed tree says so.
package_version() {
    local version commit day
    version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
    commit=$(git -C "$root" rev-parse --short=10 HEAD)
    day=$(TZ=UTC git -C "$root" log -1 --format=%cd --date=format-local:%Y%m%d%H%M)
    if [ "$(git -C "$root" describe --tags --exact-match 2>/dev/null || true)" != "v$version" ]; then
        version=$version+git$day.$commit
    fi
    [ -z "$(git -C "$root" status --porcelain --untracked-files=no)" ] || version=$version+changed
    printf '%s-1\n' "$version"
}

# debian_root FOLDER PACKAGES: a root of Debian 12 with these packages (a list with commas), from the archive. It is kept in
# target/debian and copied, so that the archive is asked once.
debian_root() {
    local folder=$1 packages=$2 cache name
    name=$(printf '%s' "$packages" | sha256sum | cut -c1-12)
    cache=$root/target/debian/bookworm-$name.tar
    mkdir -p "${cache%/*}" "$folder"
    if [ -n "${WEFT_OFFLINE:-}" ]; then
        [ -f "$cache" ] || skip "there is no root of Debian 12 in target/debian yet; the same script makes it without WEFT_OFFLINE"
    elif [ ! -f "$cache" ] || [ -n "$(find "$cache" -mtime +7)" ]; then
        say "fetching a root of Debian 12"
        rm -rf "$cache" "$cache.part"
        mmdebstrap --quiet --variant=minbase --format=tar --include="$packages" bookworm "$cache.part" >&2 ||
            skip "mmdebstrap could not make a root of Debian 12; its message is above"
        mv "$cache.part" "$cache"
    fi
    tar -xf "$cache" -C "$folder"
}
