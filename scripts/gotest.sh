#!/usr/bin/env bash
# Runs go test, strictly. Where RERUNS names a file (make test does), a test that fails runs once more by itself, and that file says so:
# CI's machine may be busy with something else, but nothing that fails twice, races, or fails beside ten others gets by.
# usage: gotest.sh [FLAG …] -- PACKAGE …
set -euo pipefail
go=${GO:-go} flags=()
while [ "$1" != -- ]; do flags+=("$1"); shift; done
shift
[ -n "${RERUNS:-}" ] || exec "$go" test "${flags[@]}" "$@"
report=$(mktemp)
trap 'cat "$report" >>"$RERUNS"; rm -f "$report"' EXIT
"$go" tool -modfile=gotestsum.mod gotestsum --format standard-quiet --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=10 \
	--rerun-fails-abort-on-data-race --rerun-fails-report="$report" --packages="$*" -- "${flags[@]}"
