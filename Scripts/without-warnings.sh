#!/usr/bin/env bash
# without-warnings.sh COMMAND...: runs a build, and fails when it warns of one of the project's files.
# What was built before is not warned of again: from a clean clone, nothing is overlooked.
set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$@" 2>&1 | tee "$log"
warnings=$(grep -E '^/.*\.swift:[0-9]+:[0-9]+: warning: ' "$log" | grep -v '/\.build/' | sort -u || true)
[ -n "$warnings" ] || exit 0
printf '\nerror: the build has warnings:\n%s\n' "$warnings" >&2
exit 1
