#!/usr/bin/env bash
# Builds an ordinary SQLite file from schema.sql and Data/*.csv.gz.
# Needs gzip and the sqlite3 shell (3.32 or later).
set -euo pipefail

usage="usage: build.sh OUT.sqlite"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tables="continents countries timezones admin_areas cities alternate_names"

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

[ $# -eq 1 ] || { echo "$usage" >&2; exit 64; }
case $1 in
    -h | --help) echo "$usage"; exit 0 ;;
    /*) out=$1 ;;
    *) out=$PWD/$1 ;;
esac
[ ! -e "$out" ] || fail "$1 exists already: move it away or choose another name"

work=$(mktemp -d "${TMPDIR:-/tmp}/cities.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

for table in $tables; do
    gzip -dc "$here/Data/$table.csv.gz" > "$table.csv"
done

# The shell's .import has no NULL: it imports an empty field as '', and an UPDATE sets it to NULL.
{
    echo "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
    echo "BEGIN;"
    cat "$here/schema.sql"
    for table in $tables; do
        echo ".import --csv --skip 1 $table.csv $table"
    done
    cat <<'SQL'
UPDATE countries SET capital = NULL WHERE capital = '';
UPDATE countries SET currency_code = NULL WHERE currency_code = '';
UPDATE admin_areas SET name = NULL WHERE name = '';
UPDATE cities SET admin_code = NULL WHERE admin_code = '';
COMMIT;
SQL
} | sqlite3 -batch -bail built.sqlite > /dev/null

total=0
for table in $tables; do
    expected=$(($(wc -l < "$table.csv") - 1))
    rows=$(sqlite3 built.sqlite "SELECT count(*) FROM $table")
    [ "$rows" -eq "$expected" ] || fail "$table has $rows rows, but its CSV has $expected"
    printf '%-16s%9d rows\n' "$table" "$rows"
    total=$((total + rows))
done
printf '%-16s%9d rows\n' total "$total"

orphans=$(sqlite3 built.sqlite \
    "SELECT count(*) || ' in ' || \"table\" FROM pragma_foreign_key_check GROUP BY \"table\"")
[ -z "$orphans" ] || fail "broken references:" $orphans
verdict=$(sqlite3 built.sqlite "PRAGMA integrity_check(5)")
[ "$verdict" = ok ] || fail "integrity_check found: $verdict"
mv built.sqlite "$out"
