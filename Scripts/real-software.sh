#!/usr/bin/env bash
# Real applications work on devices' files by their own code, and check the result themselves.
#
#     real-software.sh PATH_TO_TIDEMARK [APPLICATION...]     KEEP=1 keeps the files
#
# APPLICATION is django, django-postgres, anki, gnucash or openapi; without it, all. Each one creates its
# data, the server adopts it, two devices join, the application works on both files, and all sync. Then the
# application checks every file, and all digests are equal. Django's applications then get their next version.
#
# openapi stands for programs that know a zone by GET /openapi.json only: the document is valid, and with
# TIDEMARK_LONG=1 schemathesis sends the requests that it makes from the document.
#
# The packages of Tests/RealSoftware/requirements.txt come from PyPI, once, into the build folder. If
# they cannot be had, the script says so and ends with 0. TIDEMARK_POSTGRES names a database server.
# The applications together have TIDEMARK_REAL_SOFTWARE_SECONDS, 150 without that.
set -uo pipefail

[ $# -ge 1 ] || { echo "usage: real-software.sh PATH_TO_TIDEMARK [APPLICATION...]" >&2; exit 64; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
drivers=$(cd "$here/../Tests/RealSoftware" && pwd)
packages=$here/../.build/real-software
python=$packages/bin/python
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-real-software.XXXXXX")
server_pid="" failures=0 application=""
export PYTHONDONTWRITEBYTECODE=1

clean_up() {
    stop_server
    if [ -n "${KEEP:-}" ]; then echo "The files are in $work"; else rm -rf "$work"; fi
}
trap clean_up EXIT

# ---------------------------------------------------------------------------------------- packages

install_packages() {
    local wanted=$drivers/requirements.txt
    cmp -s "$wanted" "$packages/requirements.txt" && return 0
    command -v python3 > /dev/null || { echo "skipped: python3 is missing"; return 1; }
    echo "installing $(grep -cv '^#' "$wanted") packages from PyPI, into .build/real-software"
    rm -rf "$packages"
    if ! { python3 -m venv "$packages" &&
        timeout 300 "$packages/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 10 \
            --requirement "$wanted"; } > "$work/pip.log" 2>&1; then
        # The first line has the cause, such as a network that is away.
        echo "skipped: the packages cannot be installed: $(head -n 1 "$work/pip.log" | cut -c 1-300)"
        return 1
    fi
    cp "$wanted" "$packages/requirements.txt"
}

# ------------------------------------------------------------------------------------------- steps

# step TEXT COMMAND...: runs a command and prints one line: the text, the result, the last line of output.
step() {
    local text=$1 start=$SECONDS status=0
    shift
    "$@" > "$work/step.log" 2>&1 || status=$?
    local last result=ok
    last=$(grep -v '^$' "$work/step.log" | tail -n 1 | cut -c 1-150)
    [ "$status" -eq 0 ] || result=FAILED
    printf '%-16s %-40s %-7s %3d s  %s\n' "$application" "$text" "$result" $((SECONDS - start)) "$last"
    [ "$status" -eq 0 ] && return 0
    failures=$((failures + 1))
    {
        echo "$* ended with $status"
        [ "$status" -ne 124 ] || echo "The time is over; set TIDEMARK_REAL_SOFTWARE_SECONDS to more than ${limit}."
        # A report begins with the reason, and a Python error ends with it.
        if [ "$(wc -l < "$work/step.log")" -le 24 ]; then
            cat "$work/step.log"
        else
            head -n 12 "$work/step.log"
            echo "..."
            tail -n 8 "$work/step.log"
        fi
        echo "To look into its files: KEEP=1 Scripts/real-software.sh $binary $application"
    } | cut -c 1-300 | sed 's/^/    | /'
    return 1
}

# within_limit COMMAND...: runs a command, and ends it when the time of all applications is over.
within_limit() {
    local left=$((deadline - SECONDS))
    timeout $((left > 1 ? left : 1)) "$@"
}

drive() { within_limit "$python" "$drivers/$driver.py" "$@"; }

serve() { # serve OPTIONS...: starts a server and sets `server`
    "$binary" serve "$@" --listen 127.0.0.1:0 > server.log 2>&1 &
    server_pid=$!
    local tries=0
    server=""
    while [ -z "$server" ]; do
        server=$(sed -n 's/^listening on //p' server.log)
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$server_pid" 2> /dev/null; then
            cat server.log
            return 1
        fi
        [ -n "$server" ] || sleep 0.1
    done
    grep -v '^listening' server.log || true
}

stop_server() {
    [ -n "$server_pid" ] || return 0
    kill "$server_pid" 2> /dev/null
    wait "$server_pid" 2> /dev/null
    server_pid=""
}

sync_all() { # syncs each device until nobody has news; fails at a conflict
    local device
    for device in anna ben anna ben; do
        within_limit "$binary" device sync "$device.$suffix" || {
            "$binary" device conflicts "$device.$suffix"
            return 1
        }
    done
}

compare_digests() {
    local source hash hashes=""
    for source in "$server" "anna.$suffix" "ben.$suffix"; do
        hash=$("$binary" digest "$source") || return 1
        hash=$(tail -n 1 <<< "$hash" | awk '{ print $NF }')
        echo "$hash $source"
        hashes+="$hash"$'\n'
    done
    [ "$(sort -u <<< "$hashes" | grep -c .)" -eq 1 ]
}

# ------------------------------------------------------------------------------------------- story

# story SUFFIX DATABASE SERVE_OPTION...: one application, from its own data to the comparison.
story() {
    local source=$2 name
    suffix=$1
    shift 2
    mkdir -p "$work/$application" && cd "$work/$application" || return 1
    step "creates its data" drive create "$source" || return 1
    step "tidemark serves it" serve "$@" || return 1
    for name in anna ben; do
        step "$name joins" "$binary" device join "$server" "$name.$suffix" || return 1
        step "opens $name's file" drive check "$name.$suffix" || return 1
    done
    for name in anna ben; do
        step "works on $name's file" drive work "$name.$suffix" "$name" || return 1
    done
    step "both files sync, without a conflict" sync_all || return 1
    step "server and devices have one digest" compare_digests || return 1
    for name in anna ben; do
        step "checks $name's file" drive check "$name.$suffix" anna ben || return 1
    done
    # An application may want a file to itself, so it gets a copy of the served one.
    if [ -f "$source" ]; then
        step "tidemark copies the served file" "$binary" backup "$source" "served.$suffix" || return 1
        source=served.$suffix
    fi
    step "checks the served data" drive check "$source" anna ben || return 1
    step "both files sync again" sync_all || return 1
    step "the digest is one after the checks, too" compare_digests
}

# update DATABASE: the application's next version, on one device before the server and on one after it.
update() {
    local name
    step "ben's old application works" drive late "ben.$suffix" ben || return 1
    export SHOP_VERSION=2
    step "anna's application migrates" drive migrate "anna.$suffix" || return 1
    step "anna's file waits for the server" waits anna || return 1
    step "anna's new application works" drive late "anna.$suffix" anna || return 1
    step "the server's application migrates" drive migrate "$1" || return 1
    step "ben's edits wait for his update" waits ben || return 1
    step "ben's application migrates" drive migrate "ben.$suffix" || return 1
    step "both files sync, without a conflict" sync_all || return 1
    step "server and devices have one digest" compare_digests || return 1
    for name in anna ben; do step "checks $name's file" drive updated "$name.$suffix" || return 1; done
}

# waits NAME: succeeds if the sync of a file says that something has to be done first.
waits() { ! within_limit "$binary" device sync "$1.$suffix"; }

# describe: the served document, and with TIDEMARK_LONG=1 the requests that follow from it.
describe() {
    mkdir -p "$work/$application" && cd "$work/$application" || return 1
    step "creates its data" drive create records.sqlite || return 1
    step "tidemark serves it" serve records.sqlite || return 1
    step "the document is valid" drive validate "$server" || return 1
    [ "${TIDEMARK_LONG:-}" = 1 ] || return 0
    step "answers are as it says" drive explore "$server"
}

run_application() {
    application=$1
    unset SHOP_VERSION
    case $1 in
        django) driver=django_shop && story sqlite3 shop.sqlite3 shop.sqlite3 && update shop.sqlite3 ;;
        django-postgres)
            [ -n "${TIDEMARK_POSTGRES:-}" ] || { echo "$1: skipped: TIDEMARK_POSTGRES is not set"; return 0; }
            local url=${TIDEMARK_POSTGRES%/*}/shop_$$
            psql -qX "$TIDEMARK_POSTGRES" -c "CREATE DATABASE shop_$$" || return 1
            driver=django_shop && story sqlite3 "$url" --store "$url" --adopt --device-types django && update "$url"
            ;;
        anki) driver=anki_cards && story anki2 cards.anki2 cards.anki2 --collation unicase=NOCASE \
                --policy col=latest --policy config=latest ;;
        gnucash) driver=gnucash_book && story gnucash book.gnucash book.gnucash ;;
        openapi) driver=openapi_clients && describe ;;
        *) echo "unknown application: $1" >&2; return 64 ;;
    esac
}

install_packages || exit 0
limit=${TIDEMARK_REAL_SOFTWARE_SECONDS:-150}
deadline=$((SECONDS + limit))
[ $# -gt 0 ] || set -- django django-postgres anki gnucash openapi
for name in "$@"; do
    run_application "$name"
    stop_server
    cd "$here" || exit 1
done
[ "$failures" -eq 0 ] || { echo "$failures of the applications failed"; exit 1; }
echo "All applications got what they expect, and all files are equal."
