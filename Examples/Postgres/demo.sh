#!/usr/bin/env bash
# Two servers on one PostgreSQL with a shared Redis, three devices, and psql on the same tables.
# `make demo-postgres` runs it.
#
#     demo.sh PATH_TO_TIDEMARK      DEMO_KEEP=1 keeps the files; NO_COLOR=1 leaves the colours out
#
# Exits with 0 only if all devices equal the server, byte for byte, at the end.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: demo.sh PATH_TO_TIDEMARK" >&2; exit 64; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cities=$here/../Cities
scripts=$(cd "$here/../../Scripts" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
exec 2>&1 # keep output and errors in order, also in a file or pipe
# shellcheck source=../Cities/demo-kit.sh
. "$cities/demo-kit.sh"
server_pid="" network_pid="" second_pid=""

start_database() {
    database=$("$scripts/postgres.sh" start "$work/postgres")
    say "A private PostgreSQL, on loopback: $database"
    cache=$("$scripts/redis.sh" start "$work/redis")
    say "And a Redis, through which the servers share recent change sets: $cache"
    "$cities/build.sh" world.sqlite | tail -n 1 | indented
}

serve() { # serve LOG ADDRESS [FILE]: starts a node and sets node_pid and node
    local log=$1 address=$2
    shift 2
    "$binary" serve "$@" --store "$database" --redis "$cache" --listen "$address" > "$log" 2>&1 &
    node_pid=$!
    node=$(await_address "$node_pid" "$log") || fail "a node did not start: $(cat "$log")"
}

start_nodes() {
    say "$dim\$ tidemark serve world.sqlite --store $database --redis $cache --listen 127.0.0.1:0$plain"
    serve server.log 127.0.0.1:0 world.sqlite
    server_pid=$node_pid first=$node
    say "Node A, http://$first, has made the tables and copied the rows of the SQLite file."
    say "$dim\$ tidemark serve --store $database --redis $cache --listen 127.0.0.1:0$plain"
    serve second.log 127.0.0.1:0
    second_pid=$node_pid second=$node
    say "Node B, http://$second, read its configuration from the database."
}

report() {
    say "The rows are ordinary tables. A report, by psql:"
    psql -X "$database" -c "
        SELECT c.name AS country, count(*) AS cities, sum(t.population) AS people
        FROM cities AS t JOIN countries AS c ON (c.zone, c.code) = (t.zone, t.country_code)
        WHERE t.zone = 'main' GROUP BY c.name ORDER BY people DESC LIMIT 3" | indented
}

join_devices() {
    join "$first" anna
    join "$second" ben
    join "$second" carla
}

edit_everywhere() {
    say "Anna edits, and syncs with node A; psql writes to the tables; Ben syncs with node B."
    edit anna <<'SQL'
UPDATE cities SET population = 2028289 WHERE name = 'Vienna' AND country_code = 'AT';
INSERT INTO timezones (name) VALUES ('Antarctica/Troll');
SQL
    run 0 tidemark device sync anna.sqlite
    psql -qX "$database" -c "
        BEGIN; UPDATE cities SET population = 305314 WHERE name = 'Graz';
        DELETE FROM alternate_names WHERE city_id = (SELECT id FROM cities WHERE name = 'Graz'); COMMIT"
    run 0 tidemark device sync ben.sqlite
}

break_things() {
    say "Node A is killed, PostgreSQL stops like in a power cut, and Redis stops for good." \
        "Carla continues to edit, and syncs with node B:"
    kill -9 "$server_pid"
    wait "$server_pid" 2>/dev/null || true
    server_pid=""
    "$scripts/postgres.sh" crash "$work/postgres" > /dev/null
    "$scripts/redis.sh" stop "$work/redis"
    edit carla <<'SQL'
DELETE FROM cities WHERE name = 'Plymouth' AND country_code = 'MS';
SQL
    run 0 tidemark device sync carla.sqlite
    serve server.log "$first"
    server_pid=$node_pid
    say "Node A is back. It needs no state of its own: everything is in the database."
}

prove() {
    local device
    run 0 tidemark device sync anna.sqlite
    run 0 tidemark device sync ben.sqlite
    run 0 tidemark device sync carla.sqlite
    tidemark digest "http://$second" > server.digest
    indented < server.digest
    for device in anna ben carla; do
        tidemark digest "$device.sqlite" > "$device.digest" || true
        check "tidemark digest $device.sqlite says the same" diff server.digest "$device.digest"
    done
    check "psql sees Anna's edit, its own and Carla's" test "$(psql -qAtX "$database" -c "
        SELECT (SELECT population FROM cities WHERE name = 'Vienna' AND country_code = 'AT'),
            (SELECT population FROM cities WHERE name = 'Graz'),
            (SELECT count(*) FROM cities WHERE name = 'Plymouth' AND country_code = 'MS'),
            (SELECT count(*) FROM timezones WHERE name = 'Antarctica/Troll' AND id < 1::bigint << 51)")" \
        = "2028289|305314|0|1"
}

end_all() {
    [ -z "$second_pid" ] || kill "$second_pid" 2>/dev/null || true
    "$scripts/postgres.sh" stop "$work/postgres" >/dev/null 2>&1 || true
    "$scripts/redis.sh" stop "$work/redis" >/dev/null 2>&1 || true
    clean_up
}

command -v psql > /dev/null || fail "it needs psql"
[ -x "$binary" ] || fail "$1 is not a program; 'make build' makes it"
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-demo.XXXXXX")
chmod 755 "$work"
trap end_all EXIT
cd "$work"

step start_database "PostgreSQL, and an ordinary SQLite file"
step start_nodes "Two servers on it"
step report "Real tables"
step join_devices "Three devices join, at either server"
step edit_everywhere "A device, psql and another device"
step break_things "A server is killed, and the database too"
step prove "The proof"

[ "$outcome" = equal ] || fail "a check above failed (DEMO_KEEP=1 keeps the files)"
printf '\n%sAll devices equal the server, byte for byte.%s\n' "$bold$green" "$plain"
