#!/usr/bin/env bash
# tests.sh [--filter NAME | --skip NAME]...: runs tests that are built, no more at once than the
# machine has cores for. Without arguments, all of them in three groups, fastest first.
#
# A process with hundreds of tests under way at once makes each of them wait for all others: on a
# slow machine a time limit is then reached by load alone.
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

# Time limits of HTTP are no use while a simulation keeps all cores busy: these run apart.
quick=(TidemarkCoreTests TidemarkGzipTests TidemarkHTTPTests TidemarkHistoryTests TidyTests)
run "${quick[@]/#/--filter=}"
run --filter=SimulationTests
run "${quick[@]/#/--skip=}" --skip=SimulationTests
