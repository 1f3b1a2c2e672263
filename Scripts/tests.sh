#!/usr/bin/env bash
# tests.sh [--filter NAME | --skip NAME]...: runs the built tests, at most one per core at a time.
# Without arguments, it runs all tests in three groups, fastest first. The last group is two processes.
#
# With hundreds of tests at once, each waits for all others, and on a slow machine the load alone
# exceeds time limits.
set -euo pipefail

cores=$(getconf _NPROCESSORS_ONLN)
built=$(swift build --show-bin-path)/tidemarkPackageTests.xctest

# run WIDTH OPTION...: runs tests, so many at a time.
run() {
    local width=$1
    shift
    # On macOS the tests are a bundle, which only `swift test` can run.
    if [ -f "$built" ]; then
        "$built" --testing-library swift-testing \
            --experimental-maximum-parallelization-width "$width" "$@"
    else
        swift test --skip-build "$@"
    fi
}

if [ $# -gt 0 ]; then
    run "$cores" "$@"
    exit
fi

# The simulation keeps all cores busy, which would exceed the HTTP tests' time limits. So it runs
# separately.
quick=(TidemarkCoreTests TidemarkGzipTests TidemarkServerTests TidemarkHistoryTests TidyTests)
run "$cores" "${quick[@]/#/--filter=}"
run "$cores" --filter=SimulationTests

# The integration tests are one chain. In one process with hundreds of others, each test of the chain would wait for all
# of these, and the chain would run alone at the end. So it has a process of its own, whose output follows the others'.
chain_log=$(mktemp)
run 1 --filter=IntegrationTests >"$chain_log" 2>&1 &
chain=$!
trap 'kill "$chain" 2>/dev/null || true; rm -f "$chain_log"' EXIT
status=0
run "$cores" "${quick[@]/#/--skip=}" --skip=SimulationTests --skip=IntegrationTests || status=$?
wait "$chain" || status=$?
cat "$chain_log"
exit "$status"
