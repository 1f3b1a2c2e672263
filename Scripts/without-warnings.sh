#!/usr/bin/env bash
# without-warnings.sh COMMAND...: runs a build, and fails if it has warnings about project files.
# An incremental build does not repeat warnings, so only a build from a clean clone shows all.
set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$@" 2>&1 | tee "$log"
warnings=$(grep -E '^/.*\.swift:[0-9]+:[0-9]+: warning: ' "$log" | grep -v '/\.build/' | sort -u || true)
[ -n "$warnings" ] || exit 0
printf '\nerror: the build has warnings:\n%s\n' "$warnings" >&2
exit 1
