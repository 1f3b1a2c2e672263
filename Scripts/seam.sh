#!/usr/bin/env bash
# seam.sh BINARY: checks that a release build has no planted bugs, neither their names nor the switch.
set -euo pipefail
binary=${1:?usage: Scripts/seam.sh BINARY}
[ -f "$binary" ] || { echo "seam.sh: there is no $binary"; exit 1; }
source=Sources/TidemarkCore/PlantedBug.swift
names=$(sed -n '/package enum PlantedBug: String/,/@TaskLocal/p' "$source" \
    | sed -n 's/^ *case //p' | tr -d ' ' | tr ',' '\n')
count=$(wc -l <<< "$names")
[ "$count" -ge 30 ] || { echo "seam.sh: found only $count names in $source"; exit 1; }
if hits=$(strings -n 6 "$binary" | grep -F -w -f <(echo "$names") | head -3) && [ -n "$hits" ]; then
    echo "seam.sh: $binary has planted bugs in it:"
    echo "$hits"
    exit 1
fi
if hits=$(nm -C "$binary" 2> /dev/null | grep -E 'withPlanted|isPlanted' | head -3) && [ -n "$hits" ]; then
    echo "seam.sh: $binary has the switch in it:"
    echo "$hits"
    exit 1
fi
tools='TidemarkSimulation|TidemarkHistory|TidemarkTestSupport|TidemarkBench|fault_volume'
if hits=$(nm "$binary" 2> /dev/null | grep -E "$tools" | head -3) && [ -n "$hits" ]; then
    echo "seam.sh: $binary has a simulator, a checker, benchmarks or a fault disk in it:"
    echo "$hits"
    exit 1
fi
echo "None of the $count planted bugs and no tool is in $binary."
