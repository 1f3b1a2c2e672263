#!/usr/bin/env bash
# tests.sh [--filter NAME | --skip NAME]...: runs the built tests, at most one per core at a time.
# Without arguments, it runs all tests in three groups, fastest first. The last group is two processes.
# It prints how long each group took, and the slowest tests.
#
# With hundreds of tests at once, each waits for all others, and on a slow machine the load alone
# exceeds time limits.
set -euo pipefail

cores=$(getconf _NPROCESSORS_ONLN)
built=$(swift build --show-bin-path)/tidemarkPackageTests.xctest
log=$(mktemp)
chain_log=$(mktemp)
chain=''
trap '[ -z "$chain" ] || kill "$chain" 2>/dev/null || true; rm -f "$log" "$chain_log"' EXIT

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

# slowest COUNT: prints the tests that took longest, from the log. A test that waits for others counts its waiting.
slowest() {
    printf '\nThe slowest tests, in seconds:\n'
    sed -nE '/Test run with/d; s/^[^ ]+ +Test (.*) (passed|failed) after ([0-9.]+) seconds.*/\3 \1/p' "$log" |
        sort -rn | awk -v most="$1" 'NR <= most { time = $1; sub(/^[^ ]+ /, ""); printf "%9.1f  %s\n", time, $0 }'
}

# failures: prints what failed, from the log. After thousands of lines, the end of the output is what a reader sees.
failures() {
    if grep -aq 'recorded an issue' "$log"; then
        printf '\nWhat failed:\n'
        # An issue's own text follows in lines that begin with an arrow.
        grep -aE -A 4 'recorded an issue' "$log" | grep -aE 'recorded an issue|↳' | cut -c 1-600 | head -n 60
    fi
}

# group NAME WIDTH OPTION...: runs a group of tests, and prints what runs and how long it took.
group() {
    local name=$1 start=$SECONDS status=0
    shift
    printf -- '--> %s\n' "$name"
    run "$@" 2>&1 | tee -a "$log" || status=$?
    printf -- '--> %s: %d s\n' "$name" $((SECONDS - start))
    return "$status"
}

if [ $# -gt 0 ]; then
    status=0
    run "$cores" "$@" 2>&1 | tee -a "$log" || status=$?
    slowest 5
    failures
    exit "$status"
fi

# The simulation keeps all cores busy, which would exceed the HTTP tests' time limits. So it runs
# separately.
quick=(TidemarkCoreTests TidemarkGzipTests TidemarkServerTests TidemarkHistoryTests TidyTests)
group "quick tests" "$cores" "${quick[@]/#/--filter=}" || { failures; exit 1; }
group "simulated worlds" "$cores" --filter=SimulationTests || { failures; exit 1; }

# The integration tests are one chain. In one process with hundreds of others, each test of the chain would wait for all
# of these, and the chain would run alone at the end. So it has a process of its own, whose output follows the others'.
printf -- '--> integration tests, beside the next group\n'
start=$SECONDS
{ run 1 --filter=IntegrationTests; } >"$chain_log" 2>&1 &
chain=$!
status=0
group "all other tests" "$cores" "${quick[@]/#/--skip=}" --skip=SimulationTests --skip=IntegrationTests || status=$?
wait "$chain" || status=$?
chain=''
cat "$chain_log"
cat "$chain_log" >>"$log"
printf -- '--> integration tests: %d s\n' $((SECONDS - start))
slowest 15
failures
exit "$status"
