#!/usr/bin/env bash
# Runs a private PostgreSQL on loopback, with all its files in one folder.
#
#     postgres.sh start FOLDER     creates it if needed, starts it and prints its URL
#     postgres.sh crash FOLDER     stops it like a power cut, and starts it again
#     postgres.sh stop FOLDER      stops it for good
#
# PostgreSQL refuses to run as root. As root, the script runs it as the user postgres.
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: postgres.sh start|crash|stop FOLDER" >&2; exit 64; }
bin=$(compgen -G "/usr/lib/postgresql/*/bin" | sort -V | tail -n 1 || true)
[ -n "$bin" ] || bin=$(dirname "$(command -v postgres || true)")
[ -x "$bin/postgres" ] || { echo "postgres.sh: PostgreSQL is missing; run Scripts/setup.sh" >&2; exit 1; }

mkdir -p "$2"
folder=$(cd "$2" && pwd)
data=$folder/data
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    chown postgres "$folder"
    as_user=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
fi
# The user postgres needs a current folder that it may enter.
cd "$folder"

run() { ${as_user[@]+"${as_user[@]}"} "$bin/$1" "${@:2}"; }

# Prints a free port below the system's range for outgoing connections.
free_port() {
    local port
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    echo "postgres.sh: no free port" >&2
    return 1
}

make_cluster() {
    run initdb -D "$data" -U app -A trust -E UTF8 --no-locale -N >"$folder/initdb.log" 2>&1 ||
        { cat "$folder/initdb.log" >&2; return 1; }
    # Without fsync: tests kill processes, not the machine, so the system's cache survives.
    cat >>"$data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $(free_port)
unix_socket_directories = ''
fsync = off
max_connections = 400
wal_level = logical
CONF
}

start() { run pg_ctl -D "$data" -l "$folder/log" -w start >/dev/null; }
stop() { run pg_ctl -D "$data" -m immediate stop >/dev/null; }

case $1 in
    start)
        if [ ! -e "$data/PG_VERSION" ]; then
            make_cluster
            # If another process takes the port first, append another one; the last line counts.
            for _ in 1 2 3 4; do
                start && break
                echo "port = $(free_port)" >>"$data/postgresql.conf"
            done
        fi
        run pg_ctl -D "$data" status >/dev/null || start
        ;;
    crash) stop && start ;;
    stop) stop; exit ;;
    *) echo "postgres.sh: start, crash or stop" >&2; exit 64 ;;
esac
echo "postgres://app@127.0.0.1:$(sed -n 's/^port = //p' "$data/postgresql.conf" | tail -n 1)/postgres"
