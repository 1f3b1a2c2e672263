#!/usr/bin/env bash
# Measures the cost of capture for other programs: runs the same statements on a PostgreSQL table
# before and after a server adopts it, each on 100,000 rows.
#
#     with-services.sh capture-cost.sh PATH_TO_TIDEMARK
set -euo pipefail

[ $# -eq 1 ] && [ -n "${TIDEMARK_POSTGRES:-}" ] || {
    echo "usage: with-services.sh capture-cost.sh PATH_TO_TIDEMARK" >&2
    exit 64
}
sql() { psql -qX -v ON_ERROR_STOP=1 "$TIDEMARK_POSTGRES" "$@"; }

# measure NAME STATEMENT: prints the median of five runs, in milliseconds.
measure() {
    local name=$1 statement=$2
    for _ in 1 2 3 4 5; do
        sql -c '\timing on' -c "BEGIN; $statement; COMMIT" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
        sql -c "TRUNCATE item; INSERT INTO item SELECT n, 'name ' || n, n * 1.5, n % 100, now()::text
            FROM generate_series(1, 100000) AS n"
    done | sort -n | sed -n 3p | sed "s/^/$name /"
}

all() {
    measure insert "INSERT INTO item SELECT n + 200000, 'name', n, n, 'now' FROM generate_series(1, 100000) AS n"
    measure update "UPDATE item SET count = count + 1"
    measure delete "DELETE FROM item"
}

sql -c "CREATE TABLE item (id bigint PRIMARY KEY, name text, price float8, count int, changed text)
    WITH (autovacuum_enabled = off)"
sql -c "INSERT INTO item SELECT n, 'name ' || n, n * 1.5, n % 100, now()::text
    FROM generate_series(1, 100000) AS n"
before=$(all)
"$1" serve --store "$TIDEMARK_POSTGRES" --adopt --listen 127.0.0.1:0 >/dev/null &
trap 'kill $!' EXIT
until [ "$(sql -Atc "SELECT to_regclass('tidemark.served') IS NOT NULL")" = t ]; do sleep 0.2; done
after=$(all)
printf '%-10s %12s %12s %8s\n' statement 'plain, ms' 'captured, ms' ratio
paste -d ' ' <(printf '%s\n' "$before") <(printf '%s\n' "$after") |
    awk '{ printf "%-10s %12.0f %12.0f %8.2f\n", $1, $2, $4, $4 / $2 }'
