#!/usr/bin/env bash
# stage.sh NAME COMMAND...: prints a stage's name, runs its command, and prints its duration.
# The output and the exit status are the command's own. Without a terminal, the script repeats the
# failed tests at the end, because a truncated log keeps only its end.
set -uo pipefail

readonly name=$1
shift

bold='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'; fi

log=''
if [ ! -t 1 ]; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
fi

printf '%s==> %s%s\n' "$bold" "$name" "$plain"
SECONDS=0
if [ -n "$log" ]; then
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
else
    "$@"
    status=$?
fi
if [ "$status" -eq 0 ]; then
    printf '    done in %d s\n' "$SECONDS"
else
    [ -z "$log" ] || grep -E '✘ Test .* recorded an issue|error: ' "$log" | tail -n 60 | cut -c 1-600 >&2
    printf '%s    failed after %d s: %s%s\n' "$red" "$SECONDS" "$*" "$plain" >&2
fi
exit "$status"
