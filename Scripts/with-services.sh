#!/usr/bin/env bash
# Runs a command beside a PostgreSQL of its own: on loopback, in a scratch folder, gone afterwards.
#
#     with-services.sh COMMAND...      sets TIDEMARK_POSTGRES and TIDEMARK_POSTGRES_FOLDER
#
# Works as root, who may not run PostgreSQL and lends it the package's own user, and as anybody else.
set -euo pipefail

bin=$(compgen -G "/usr/lib/postgresql/*/bin" | sort -V | tail -n 1 || true)
[ -n "$bin" ] || bin=$(dirname "$(command -v postgres || true)")
[ -x "$bin/postgres" ] || { echo "with-services: PostgreSQL is missing; run Scripts/setup.sh" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-services.XXXXXX")
chmod 755 "$folder"
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    mkdir "$folder/postgres"
    chown postgres "$folder/postgres"
    as_user=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
else
    mkdir "$folder/postgres"
fi
data=$folder/postgres/data

stop() {
    ${as_user[@]+"${as_user[@]}"} "$bin/pg_ctl" -D "$data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap stop EXIT

free_port() {
    local port
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    echo "with-services: no free port" >&2
    return 1
}

cd "$folder"
${as_user[@]+"${as_user[@]}"} "$bin/initdb" -D "$data" -U tidemark -A trust -E UTF8 --no-locale -N \
    >"$folder/initdb.log" 2>&1 || { cat "$folder/initdb.log" >&2; exit 1; }
port=$(free_port)
# A test kills processes, not the machine: what the system has in memory survives.
cat >>"$data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$folder/postgres'
fsync = off
full_page_writes = off
max_connections = 200
CONF
${as_user[@]+"${as_user[@]}"} "$bin/pg_ctl" -D "$data" -l "$folder/postgres/log" -w start >/dev/null
cd - >/dev/null

export TIDEMARK_POSTGRES="postgres://tidemark@127.0.0.1:$port/postgres"
export TIDEMARK_POSTGRES_FOLDER="$folder/postgres"
"$@"
