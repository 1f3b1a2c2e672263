#!/usr/bin/env bash
# tests.sh [--filter NAME | --skip NAME]...: runs the built tests, at most one per core at a time.
# Without arguments, it runs all tests in three groups, fastest first.
#
# With hundreds of tests at once, each waits for all others, and on a slow machine the load alone
# exceeds time limits.
set -euo pipefail

cores=$(getconf _NPROCESSORS_ONLN)
built=$(swift build --show-bin-path)/tidemarkPackageTests.xctest

run() {
    # On macOS the tests are a bundle, which only `swift test` can run.
    if [ -f "$built" ]; then
        "$built" --testing-library swift-testing \
            --experimental-maximum-parallelization-width "$cores" "$@"
    else
        swift test --skip-build "$@"
    fi
}

if [ $# -gt 0 ]; then
    run "$@"
    exit
fi

# The simulation keeps all cores busy, which would exceed the HTTP tests' time limits. So it runs
# separately.
quick=(TidemarkCoreTests TidemarkGzipTests TidemarkServerTests TidemarkHistoryTests TidyTests)
run "${quick[@]/#/--filter=}"
run --filter=SimulationTests
run "${quick[@]/#/--skip=}" --skip=SimulationTests
