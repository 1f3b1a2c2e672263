#!/usr/bin/env bash
# Runs a private Redis or Valkey on loopback, with all its files in one folder.
#
#     redis.sh start FOLDER      starts it, empty, and prints its URL
#     redis.sh stop FOLDER       stops it for good
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: redis.sh start|stop FOLDER" >&2; exit 64; }
server=$(command -v redis-server || command -v valkey-server || true)
[ -n "$server" ] || { echo "redis.sh: Redis is missing; run Scripts/setup.sh" >&2; exit 1; }

mkdir -p "$2"
folder=$(cd "$2" && pwd)

# without_inherited_files COMMAND...: runs a command without the caller's open files. A caller may
# wait until all copies of its pipe are closed, but the server keeps running.
without_inherited_files() {
    local file
    for file in /dev/fd/*; do
        case ${file##*/} in 0 | 1 | 2) ;; *) eval "exec ${file##*/}>&-" 2>/dev/null || true ;; esac
    done
    exec "$@"
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start() {
    local port
    for _ in $(seq 20); do
        port=$((20000 + RANDOM % 12000))
        answers "$port" && continue
        (without_inherited_files "$server" --port "$port" --bind 127.0.0.1 --dir "$folder" --save '' \
            --appendonly no --daemonize yes --pidfile "$folder/pid" --logfile "$folder/log" \
            >/dev/null 2>&1)
        for _ in $(seq 100); do
            if answers "$port" && [ -s "$folder/pid" ]; then
                echo "redis://127.0.0.1:$port"
                return
            fi
            sleep 0.05
        done
    done
    cat "$folder/log" >&2
    return 1
}

case $1 in
    start) start ;;
    stop) [ ! -s "$folder/pid" ] || kill -9 "$(cat "$folder/pid")" ;;
    *) echo "redis.sh: start or stop" >&2; exit 64 ;;
esac
