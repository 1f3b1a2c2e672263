#!/usr/bin/env bash
# Damages three of 200,000 rows without the triggers; `tidemark verify` names exactly these and
# repairs them. `make demo-verify` runs it.
#
#     demo.sh PATH_TO_TIDEMARK [ROWS]
#
# Exits with 0 only if verify finds exactly these three records, and the files are equal at the end.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: demo.sh PATH_TO_TIDEMARK [ROWS]" >&2; exit 64; }
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
rows=${2:-200000}
folder=$(mktemp -d)
server_pid=""
trap '[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

say() { printf '\n%s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

say "A file of $rows cities, served and joined:"
sqlite3 world.sqlite <<SQL
CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL, population INTEGER, area REAL);
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < $rows)
INSERT INTO city SELECT i, 'City ' || i, i * 37 % 100000, i / 7.0 FROM n;
SQL
"$binary" serve world.sqlite --listen 127.0.0.1:0 > server.log 2>&1 &
server_pid=$!
for _ in $(seq 200); do
    server=$(sed -n 's/^listening on //p' server.log)
    [ -n "$server" ] && break
    sleep 0.1
done
[ -n "$server" ] || fail "the server did not start"
"$binary" device join "$server" phone.sqlite
"$binary" device sync phone.sqlite

say "An edit waits, and three rows go wrong without any trigger:"
sqlite3 phone.sqlite "UPDATE city SET name = 'Kiel' WHERE id = 5"
sqlite3 phone.sqlite <<SQL
UPDATE tidemark_state SET applying = 1; -- like a failing disk, without capture
UPDATE city SET population = population + 1 WHERE id = 1017;
DELETE FROM city WHERE id = $((rows / 2));
INSERT INTO city VALUES ($((rows + 7)), 'Nowhere', 0, 0);
UPDATE tidemark_state SET applying = 0;
SQL

say "\$ tidemark verify phone.sqlite"
time "$binary" verify phone.sqlite > found.txt && fail "verify found nothing"
cat found.txt
[ "$(grep -cE '^(changed|missing|surplus): ' found.txt)" = 3 ] || fail "not exactly three records"
grep -qx 'changed: city 1017: population' found.txt || fail "the flipped cell was not named"

say "\$ tidemark verify phone.sqlite --repair"
"$binary" verify phone.sqlite --repair
say "\$ tidemark verify phone.sqlite"
time "$binary" verify phone.sqlite

say "The edit is still there; after a sync both files are equal:"
"$binary" device sync phone.sqlite
"$binary" digest world.sqlite > world.txt
"$binary" digest phone.sqlite > phone.txt
cmp world.txt phone.txt || fail "the files differ"
[ "$(sqlite3 world.sqlite "SELECT name FROM city WHERE id = 5")" = Kiel ] || fail "the edit is lost"
tail -1 phone.txt
say "All is equal."
