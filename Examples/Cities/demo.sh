#!/usr/bin/env bash
# Demonstrates the main job of Tidemark, end to end, on real data. `make demo` runs it.
#
#     demo.sh PATH_TO_TIDEMARK      DEMO_KEEP=1 keeps the files; NO_COLOR=1 leaves the colours out
#
# Exits with 0 only if all devices equal the server, byte for byte, at the end.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: demo.sh PATH_TO_TIDEMARK" >&2; exit 64; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
tables="continents countries timezones admin_areas cities alternate_names"
devices="anna ben carla"
exec 2>&1 # keep output and errors in order, also in a file or pipe
# shellcheck source=demo-kit.sh
. "$here/demo-kit.sh"

# --------------------------------------------------------------------------------------- the story

build_file() {
    "$here/build.sh" world.sqlite | indented
    say "An ordinary SQLite file: cities of the world, by GeoNames (geonames.org), CC BY 4.0."
}

serve_file() {
    say "$dim\$ tidemark serve world.sqlite --listen 127.0.0.1:0$plain"
    "$binary" serve world.sqlite --listen 127.0.0.1:0 > server.log 2>&1 &
    server_pid=$!
    server=$(await_address "$server_pid" server.log) || fail "the server did not start"
    say "Listening on http://$server. Its rows are revision 1; any program can still use the file."
}

join_devices() {
    connect_network 127.0.0.1:0
    say "Anna is near the server; Ben and Carla reach it through a network that can fail ($network)."
    join "$server" anna
    join "$network" ben
    join "$network" carla
}

connect_network() {
    # A second server on the same file stands for the network: stopping it cuts the network.
    "$binary" serve world.sqlite --listen "$1" > network.log 2>&1 &
    network_pid=$!
    network=$(await_address "$network_pid" network.log) || fail "the network did not start"
}

cut_network() {
    stop "$network_pid"
    network_pid=""
    run 4 tidemark device sync ben.sqlite
    say "Exit code 4: the server cannot be reached, and nothing is lost."
}

ben_edits() {
    say "A city with two more names, under temporary ids; edits; a delete that cascades."
    edit ben <<'SQL'
PRAGMA foreign_keys = ON;
BEGIN;
INSERT INTO cities
    (id, name, country_code, admin_code, timezone_id, latitude, longitude, population)
VALUES
    (-1, 'Hallstatt', 'AT', '04', (SELECT id FROM timezones WHERE name = 'Europe/Vienna'),
     47.56222, 13.64927, 742);
INSERT INTO alternate_names (id, city_id, name)
VALUES (-1, -1, '哈尔施塔特'), (-2, -1, 'Гальштат');
COMMIT;
UPDATE cities SET population = population + 100 WHERE country_code = 'IS';
DELETE FROM alternate_names  -- airport codes are not names
WHERE name GLOB '[A-Z][A-Z][A-Z]'
  AND city_id IN (SELECT id FROM cities WHERE country_code = 'DE');
DELETE FROM cities WHERE name = 'Plymouth' AND country_code = 'MS';  -- buried by a volcano
SQL
}

carla_edits() {
    say "A new time zone and a city in it; SQLite chooses temporary ids."
    edit carla <<'SQL'
BEGIN;
INSERT INTO timezones (name) VALUES ('Antarctica/Troll');
INSERT INTO cities (name, country_code, timezone_id, latitude, longitude, population)
VALUES ('Troll Station', 'AQ', last_insert_rowid(), -72.01194, 2.535, 40);
COMMIT;
SQL
    run 4 tidemark device sync carla.sqlite
    say "Then, as a separate change set, Vienna and Graz:"
    edit carla <<'SQL'
BEGIN;
UPDATE cities SET population = 2028289 WHERE name = 'Vienna' AND country_code = 'AT';
UPDATE cities SET population = 305314 WHERE name = 'Graz';
COMMIT;
SQL
    run 4 tidemark device sync carla.sqlite
    run 0 tidemark device status carla.sqlite
}

anna_edits() {
    edit anna <<'SQL'
UPDATE cities SET population = 2005760 WHERE name = 'Vienna' AND country_code = 'AT';
SQL
    run 0 tidemark device sync anna.sqlite
}

restore_network() {
    connect_network "$network"
    run 0 tidemark device sync ben.sqlite
    run 3 tidemark device sync carla.sqlite
    say "Exit code 3: synced, with a conflict to resolve. Another round, so that all devices are even:"
    sync_all 3
}

sync_all() { # sync_all CODE_OF_CARLA
    run 0 tidemark device sync anna.sqlite
    run 0 tidemark device sync ben.sqlite
    run "$1" tidemark device sync carla.sqlite
}

show_conflict() {
    run "0 3" tidemark device conflicts carla.sqlite
    say "No work is lost: the file holds Anna's number, and Carla's change set stays whole."
}

resolve_conflict() {
    local id
    tidemark device conflicts carla.sqlite --json > conflicts.json || [ $? -eq 3 ]
    id=$(sqlite3 :memory: "SELECT json_extract(readfile('conflicts.json'), '\$[0].number')") || true
    [ -n "$id" ] || fail "there is no conflict in carla.sqlite"
    say "Carla has seen both numbers, and hers is newer: her change set goes on top of Anna's."
    run 0 tidemark device resolve carla.sqlite "$id" --retry
    run 0 tidemark device sync carla.sqlite
    say "And another round:"
    sync_all 0
}

# --------------------------------------------------------------------------------------- the proof

prove_digests() {
    local device
    tidemark digest world.sqlite > world.digest
    indented < world.digest
    for device in $devices; do
        tidemark digest "$device.sqlite" > "$device.digest" || true
        check "tidemark digest $device.sqlite says the same" diff world.digest "$device.digest"
    done
}

prove_bytes() {
    local table difference
    say "Without Tidemark: the sqlite3 shell dumps every table, cmp compares the dumps."
    printf '\n    %s%-16s%9s   %-6s%-6s%-6s%s\n' "$bold" table rows $devices "$plain"
    for table in $tables; do compare_table "$table"; done
    for difference in *.diff; do
        [ ! -e "$difference" ] || { echo "--- $difference"; head -n 6 "$difference"; }
    done
}

prove_content() {
    expect "Ben's city has both its names, all with permanent ids" 2 \
        "SELECT count(*) FROM cities AS c JOIN alternate_names AS a ON a.city_id = c.id
         WHERE c.name = 'Hallstatt' AND c.id BETWEEN 1 AND 1 << 51 AND a.id BETWEEN 1 AND 1 << 51"
    expect "His edits and his deletes are there, with the deletes of the cascade" "245956|0|0|0" \
        "SELECT (SELECT sum(population) FROM cities WHERE country_code = 'IS'),
                (SELECT count(*) FROM cities WHERE id = 3578069),
                (SELECT count(*) FROM alternate_names WHERE city_id = 3578069),
                (SELECT count(*) FROM alternate_names WHERE name GLOB '[A-Z][A-Z][A-Z]'
                    AND city_id IN (SELECT id FROM cities WHERE country_code = 'DE'))"
    expect "Carla's station lies in her time zone, both with permanent ids" "Antarctica/Troll" \
        "SELECT t.name FROM cities AS c JOIN timezones AS t ON t.id = c.timezone_id
         WHERE c.name = 'Troll Station'
           AND c.id BETWEEN 1 AND 1 << 51 AND t.id BETWEEN 1 AND 1 << 51"
    expect "Her other change set took effect whole, once she had seen Anna's" "2028289|305314" \
        "SELECT (SELECT population FROM cities WHERE name = 'Vienna' AND country_code = 'AT'),
                (SELECT population FROM cities WHERE name = 'Graz')"
    expect "No reference is broken, and the file is sound" "ok" \
        "PRAGMA foreign_key_check; PRAGMA integrity_check"
}

command -v sqlite3 > /dev/null || fail "it needs the sqlite3 shell"
[ -x "$binary" ] || fail "$1 is not a program; 'make build' makes it"
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-demo.XXXXXX")
trap clean_up EXIT
cd "$work"

step build_file "An ordinary SQLite file"
step serve_file "A server adopts and serves it"
step join_devices "Three devices join"
step cut_network "The network goes away for Ben and Carla"
step ben_edits "Ben works on, offline, with the sqlite3 shell"
step carla_edits "So does Carla"
step anna_edits "Meanwhile Anna, online, edits Vienna too"
step restore_network "The network returns, and all devices sync"
step show_conflict "The collision is a conflict, on Carla's device"
step resolve_conflict "Carla resolves it"
step prove_digests "The proof, by Tidemark: one digest per table"
step prove_bytes "The proof, by sqlite3 and cmp: every byte of every row"
step prove_content "The proof that no work is missing"

[ "$outcome" = equal ] || fail "a check above failed (DEMO_KEEP=1 keeps the files)"
printf '\n%sAll three devices equal the server, byte for byte.%s\n' "$bold$green" "$plain"
