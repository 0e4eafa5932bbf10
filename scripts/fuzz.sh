#!/usr/bin/env bash
# Runs every fuzz target of the tree for the time given (a Go duration, or Nx for so many executions), as many at a time as there are
# cores, each with one of them. What a target finds is left in its package's testdata/fuzz, where `go test` tries it from then on.
# usage: fuzz.sh [TIME [PATTERN]]     PATTERN (an extended regular expression) selects among "DIR Target"
set -euo pipefail
export FUZZ_TIME=${1:-20s}
pattern=${2:-}
FUZZ_BINARIES=$(mktemp -d)
trap 'rm -rf "$FUZZ_BINARIES"' EXIT
FUZZ_CACHE=$(go env GOCACHE)/fuzz/brokerlab
export FUZZ_BINARIES FUZZ_CACHE
export GOMAXPROCS=1

targets() {
	grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
		grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$file" | awk -v dir="$(dirname "$file")" '{print dir, $2}'
	done
}

# build DIR makes the test binary of a package, once for all its targets: to link it takes longer than they run
build() {
	go test -c -fuzz . -o "$FUZZ_BINARIES/${1//\//-}.test" "$1"
}
export -f build

# one DIR TARGET
one() {
	local log status=0
	log=$(mktemp)
	(cd "$1" && "$FUZZ_BINARIES/${1//\//-}.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZ_TIME" -test.parallel 1 \
		-test.fuzzcachedir "$FUZZ_CACHE/$1") </dev/null >"$log" 2>&1 || status=$?
	# Go may take the end of its own time for a failure of the target (go.dev/issue/75804). A real one leaves an input or a trace.
	if [ "$status" != 0 ] && grep -q 'context deadline exceeded' "$log" && ! grep -qE 'Failing input written|panic:|_test\.go:' "$log"; then
		status=0
	fi
	if [ "$status" = 0 ]; then
		echo "ok   $1 $2: $(grep -oE 'execs: [0-9]+' "$log" | tail -1)"
	else
		echo "FAIL $1 $2"
		tail -c 8000 "$log"
	fi
	rm -f "$log"
	return "$status"
}
export -f one

list=$(targets | grep -E -- "$pattern" || true)
[ -n "$list" ] || { echo "fuzz.sh: no target matches '$pattern'" >&2; exit 2; }
echo "fuzz: $(wc -l <<<"$list") targets, $FUZZ_TIME each, $(nproc) at a time"
awk '{print $1}' <<<"$list" | sort -u | xargs -P "$(nproc)" -L 1 bash -c 'build "$@"' build
xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' one <<<"$list"
