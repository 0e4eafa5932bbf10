#!/usr/bin/env bash
# Everything that CI runs, cheapest checks first, and how long each part took. It ends with the first part that fails.
# usage: test.sh PART…     a PART is a target of the Makefile
set -euo pipefail
times=()
for part in "$@"; do
	begin=$SECONDS
	"${MAKE:-make}" --no-print-directory "$part" || { echo "make test: $part failed after $((SECONDS - begin)) s" >&2; exit 1; }
	times+=("$part $((SECONDS - begin)) s")
done
printf 'make test: %s\n' "$(IFS=,; echo "${times[*]}" | sed 's/,/, /g'), in all $SECONDS s"
scripts/skipped.sh
