#!/usr/bin/env bash
# stage.sh NAME COMMAND...: names a stage, runs its command, says how long it took.
# The output and the exit status are the command's own.
set -uo pipefail

readonly name=$1
shift

bold='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'; fi

printf '%s==> %s%s\n' "$bold" "$name" "$plain"
SECONDS=0
"$@"
status=$?
if [ "$status" -eq 0 ]; then
    printf '    done in %d s\n' "$SECONDS"
else
    printf '%s    failed after %d s: %s%s\n' "$red" "$SECONDS" "$*" "$plain" >&2
fi
exit "$status"
