#!/usr/bin/env bash
# A server with the dashboard, and three devices that edit and sync until Ctrl-C.
# `make demo-dashboard` runs it.
#
#     demo.sh PATH_TO_TIDEMARK [ROUNDS]     rounds of the devices; without a number, until Ctrl-C
#     DEMO_KEEP=1 keeps the files; NO_COLOR=1 leaves the colours out
#
# Exits with 0 if every device synced in every round.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: demo.sh PATH_TO_TIDEMARK [ROUNDS]" >&2; exit 64; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
rounds=${2:-0}
devices="anna ben carla"
exec 2>&1 # keep output and errors in order, also in a file or pipe
# shellcheck source=../Cities/demo-kit.sh
. "$here/../Cities/demo-kit.sh"

start_server() {
    sqlite3 -batch club.sqlite < "$here/club.sql"
    say "$dim\$ tidemark serve club.sqlite --listen 127.0.0.1:0$plain"
    "$binary" serve club.sqlite --listen 127.0.0.1:0 > server.log 2>&1 &
    server_pid=$!
    server=$(await_address "$server_pid" server.log) || fail "the server did not start"
}

join_devices() {
    local name
    for name in $devices; do join "$server" "$name"; done
}

# change NAME: one edit of a device, chosen by chance; now and then two devices edit the same record.
change() {
    local player=$((RANDOM % 40 + 1)) shared=$((RANDOM % 3 + 1))
    case $((RANDOM % 8)) in
        0) echo "INSERT INTO player (name, team_id, goals) VALUES ('Player $RANDOM', $shared, 0);" ;;
        1) echo "UPDATE team SET motto = 'Motto $RANDOM of $1' WHERE id = $shared;" ;;
        2) echo "DELETE FROM player WHERE id = (SELECT max(id) FROM player WHERE id > 40);" ;;
        *) echo "UPDATE player SET goals = goals + 1 WHERE id = $player;" ;;
    esac | sqlite3 -batch -bail "$1.sqlite"
}

# Two devices edit before any of them syncs, so some rounds end in a conflict; the server's value wins then.
play_round() {
    local name code
    for name in $devices; do change "$name"; done
    for name in $devices; do
        code=0
        "$binary" device sync "$name.sqlite" > "$name.log" 2>&1 || code=$?
        [ "$code" = 0 ] || grep -q conflict "$name.log" || { cat "$name.log"; fail "$name could not sync"; }
        if grep -q conflict "$name.log"; then settle "$name"; fi
    done
}

# settle NAME: takes the server's side of every conflict of a device.
settle() {
    local id
    for id in $(sed -n 's/^conflict: //p' "$1.log"); do
        "$binary" device resolve "$1.sqlite" "$id" --accept --dependents >> "$1.log" 2>&1 \
            || fail "$1 could not resolve $id"
    done
}

play() {
    local number=0
    say "The dashboard is at$bold http://$server/dashboard/$plain"
    say "Anna, Ben and Carla edit and sync. Ctrl-C ends it."
    while [ "$rounds" = 0 ] || [ "$number" -lt "$rounds" ]; do
        play_round
        number=$((number + 1))
        [ "$number" = "$rounds" ] || sleep 2
    done
}

command -v sqlite3 > /dev/null || fail "it needs sqlite3"
[ -x "$binary" ] || fail "$binary is not a program; 'make build' makes it"
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-demo.XXXXXX")
trap clean_up EXIT
trap 'echo; exit 0' INT TERM
cd "$work"
step start_server "A server on an ordinary file"
step join_devices "Three devices"
step play "They work"
