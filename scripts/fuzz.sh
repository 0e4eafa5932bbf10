#!/usr/bin/env bash
# Runs every fuzz target of the tree for the time given (a Go duration), one after another.
set -euo pipefail
time=${1:-20s}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | awk '{print $2}' | while read -r target; do
		echo "== $dir $target"
		go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null
	done
done
