#!/usr/bin/env bash
# datasette.sh TIDEMARK: the processor time of a page of 100 rows, beside Datasette's on the same table.
#
# It installs Datasette from PyPI into .build. Both servers answer the same 500 requests, one after another; the time is
# that of their processes, by /proc, so it needs Linux. Datasette does not count the rows either.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: datasette.sh PATH_TO_TIDEMARK" >&2; exit 64; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=.build/datasette
[ -x "$tools/bin/datasette" ] || { python3 -m venv "$tools" && "$tools/bin/pip" -q install datasette==0.65.5; }
folder=$(mktemp -d)
trap 'kill "${servers[@]}" 2> /dev/null || true; rm -r "$folder"' EXIT
servers=()

for name in tidemark datasette; do
    sqlite3 "$folder/$name.sqlite" "
        CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, a INTEGER, b INTEGER, c REAL, d TEXT, e TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 34006)
        INSERT INTO item SELECT i, 'Item ' || i, i % 7, i % 100, i / 3.0, hex(i * 7919), 'A text of some length ' || i
        FROM n"
done
"$1" serve "$folder/tidemark.sqlite" --listen 127.0.0.1:8471 > "$folder/log" 2>&1 &
servers+=($!)
"$tools/bin/datasette" serve "$folder/datasette.sqlite" --port 8472 > "$folder/log2" 2>&1 &
servers+=($!)

# measure NAME PROCESS URL
measure() {
    local before after
    curl -s -f -g --retry 30 --retry-connrefused --retry-delay 1 -o /dev/null "${3}0"
    before=$(awk '{ print $14 + $15 }' "/proc/$2/stat")
    curl -s -f -o /dev/null "$3[1-500]"
    after=$(awk '{ print $14 + $15 }' "/proc/$2/stat")
    awk -v name="$1" -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%-10s %6.2f ms of processor time a page, mean of 500\n", name, ticks * 1000 / hertz / 500 }'
}

measure tidemark "${servers[0]}" "http://127.0.0.1:8471/tables/item?limit=100&id=gte."
measure datasette "${servers[1]}" "http://127.0.0.1:8472/datasette/item.json?_size=100&_nocount=1&_shape=array&id__gte="
