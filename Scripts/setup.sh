#!/usr/bin/env bash
# Prepares this machine to build, test and demonstrate Tidemark.
# Installs missing packages on Debian and Ubuntu, and only names them elsewhere.
# If no package is missing, it uses no network and prints one line.
#
#     setup.sh           packages for the build, the demos and most tests
#     setup.sh tests     also the browser and the proxies of some tests, some 500 MB; a test whose
#                        program cannot be installed is skipped and says so
set -euo pipefail

readonly swift_needed="6.2"

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

has_command() { command -v "$1" >/dev/null 2>&1; }

has_any() {
    local name
    for name in "$@"; do
        has_command "$name" && return 0
    done
    return 1
}

# has_file PATTERN...: whether a file exists; a pattern may have wildcards.
has_file() {
    local pattern
    for pattern in "$@"; do
        compgen -G "$pattern" >/dev/null && return 0
    done
    return 1
}

# has_header NAME...: whether the system compiler finds a header.
has_header() {
    local name
    for name in "$@"; do
        has_file "/usr/include/$name" "/usr/local/include/$name" "/usr/include/*-linux-gnu/$name" &&
            return 0
    done
    return 1
}

# Without these certificates, HTTPS downloads fail on a fresh machine.
has_certificates() { has_file "/etc/ssl/certs/ca-certificates.crt" "/etc/pki/tls/certs/*.crt"; }

packages=()

# need PACKAGE REASON TEST...: adds the package to the list if the test fails.
need() {
    local package=$1 reason=$2
    shift 2
    "$@" && return 0
    packages+=("$package")
    printf 'setup: %-16s is missing: %s\n' "$package" "$reason"
}

check_linux() {
    need libsqlite3-dev "the SQLite that every target links with" has_header sqlite3.h
    need zlib1g-dev "gzip in both directions" has_header zlib.h
    need libpq-dev "the client library of PostgreSQL" has_header postgresql/libpq-fe.h libpq-fe.h
    need libhiredis-dev "the client library of Redis" has_header hiredis/hiredis.h
    need redis-server "the tests' own cache" has_any redis-server valkey-server
    need postgresql "the tests' own database" has_file "/usr/lib/postgresql/*/bin/postgres"
    need sqlite3 "the shell that the demo and the tests edit device files with" has_command sqlite3
    need curl "the plain HTTP requests of the tests" has_command curl
    need git "Swift fetches the dependencies with it" has_command git
    need make "the targets of the Makefile" has_command make
    need ca-certificates "Swift fetches the dependencies over HTTPS" has_certificates
    need g++ "the C and C++ libraries that Swift code is linked with" \
        has_file "/usr/lib/gcc/*/*/libstdc++.so"
    [ ${#packages[@]} -eq 0 ] || install_on_debian
}

# Installs each package separately, because a system may lack some of them.
check_linux_tests() {
    want chromium "the pages that tests open" chromium chromium-browser google-chrome
    want nginx "the proxy of Docs/PROXY.md" nginx /usr/sbin/nginx
    want caddy "the other proxy of Docs/PROXY.md" caddy
    want python3 "the client of Docs/PROTOCOL.md" python3
    python3 -c 'import ensurepip' 2>/dev/null || want python3-venv "the applications of make real-software"
}

# want PACKAGE REASON COMMAND...: tries to install the package if none of the commands exists.
want() {
    local package=$1 reason=$2
    shift 2
    has_any "$@" && return 0
    printf 'setup: %-16s is missing: %s\n' "$package" "$reason"
    if ! has_command apt-get || ! (packages=("$package") && install_on_debian); then
        printf 'setup: %s cannot be installed here; its tests will be skipped\n' "$package"
        return 0
    fi
    # The package starts a system service, but the tests start their own.
    if [ -d /run/systemd/system ] && [ "$package" != chromium ]; then
        systemctl disable --now "$package" >/dev/null 2>&1 ||
            sudo systemctl disable --now "$package" >/dev/null 2>&1 ||
            printf 'setup: %s runs as a service now; stop it if you do not want it\n' "$package"
    fi
}

install_on_debian() {
    has_command apt-get || fail \
        "this system has no apt-get. Please install the equivalents of these packages:" \
        "  ${packages[*]}"

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        has_command sudo || fail \
            "installing needs root or sudo. Please run as root:" \
            "  apt-get update && apt-get install ${packages[*]}"
        as_root=(sudo)
    fi

    printf 'setup: installing %s with apt-get\n' "${packages[*]}"
    local log
    log=$(mktemp)
    # In the bash of macOS, expanding an empty array is an error, hence the `+`.
    if ! { ${as_root[@]+"${as_root[@]}"} apt-get update &&
        ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
            apt-get install --yes --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt-get failed; its last lines are above. Nothing was built."
    fi
    rm -f "$log"
}

check_macos_tests() {
    has_command nginx || printf 'setup: no nginx here; its tests will be skipped\n'
    has_command caddy || printf 'setup: no caddy here; its tests will be skipped\n'
}

check_macos() {
    has_command sqlite3 || fail "the sqlite3 shell is missing; macOS ships it in /usr/bin"
    has_command git || fail "git is missing; install it with: xcode-select --install"
}

check_swift() {
    has_command swift || fail \
        "Swift is missing. Install $swift_needed or newer from https://www.swift.org/install" \
        "and put it on the PATH."
    local text
    text=$(swift --version 2>&1) || fail "swift --version failed:" "$text"
    swift_found=$(sed -nE 's/.*Swift version ([0-9]+(\.[0-9]+)*).*/\1/p' <<<"$text" | head -n 1)
    [ -n "$swift_found" ] || fail "cannot read a version from swift --version:" "$text"

    local major minor rest
    IFS=. read -r major minor rest <<<"$swift_found.0"
    if [ "$major" -lt "${swift_needed%.*}" ] ||
        { [ "$major" -eq "${swift_needed%.*}" ] && [ "$minor" -lt "${swift_needed#*.}" ]; }; then
        fail "Swift $swift_found is too old; $swift_needed or newer is needed." \
            "Get it from https://www.swift.org/install"
    fi
}

readonly purpose=${1-build}
[[ $purpose == build || $purpose == tests ]] || fail "unknown purpose $purpose: give none, or tests"
case "$(uname -s)" in
    Linux)
        check_linux
        [ "$purpose" = build ] || check_linux_tests
        ;;
    Darwin)
        check_macos
        [ "$purpose" = build ] || check_macos_tests
        ;;
    *) fail "Tidemark is built on Linux and macOS; this is $(uname -s)." ;;
esac
check_swift
sqlite_found=$(sqlite3 --version)
printf 'setup: Swift %s and SQLite %s are ready\n' "$swift_found" "${sqlite_found%% *}"
