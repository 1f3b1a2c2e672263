#!/usr/bin/env bash
# Runs a command with a private PostgreSQL, and removes the PostgreSQL afterwards.
#
#     with-services.sh COMMAND...      sets TIDEMARK_POSTGRES to its URL, and TIDEMARK_SERVICES to
#                                      the folder for other services that a test starts
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-services.XXXXXX")
chmod 755 "$folder"
stop() {
    "$here/postgres.sh" stop "$folder/postgres" >/dev/null 2>&1 || true
    for pid in "$folder"/*/pid; do
        [ ! -s "$pid" ] || kill -9 "$(cat "$pid")" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT

TIDEMARK_POSTGRES=$("$here/postgres.sh" start "$folder/postgres")
export TIDEMARK_POSTGRES TIDEMARK_SERVICES=$folder
"$@"
