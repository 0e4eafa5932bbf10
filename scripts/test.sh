#!/usr/bin/env bash
# Everything that CI runs, cheapest checks first, and how long each part took. It ends with the first part that fails, and the
# last that it says then is what failed in it. What passed only when run again is named at the end.
# usage: test.sh PART…     a PART is a target of the Makefile, or some that run side by side: ONE+OTHER
set -euo pipefail
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export RERUNS=$logs/reruns
touch "$RERUNS"
times=()
for part in "$@"; do
	begin=$SECONDS log=$logs/$part
	IFS=+ read -ra targets <<<"$part"
	# Not a pipe, whose end would wait for whatever a failed test has left running.
	if ! "${MAKE:-make}" --no-print-directory -j "${#targets[@]}" "${targets[@]}" > >(tee "$log") 2>&1; then
		took=$((SECONDS - begin))
		sleep 1 # tee may still have something to write
		printf '\nmake test: %s failed after %d s; what failed in it, briefly:\n' "$part" "$took"
		scripts/failures.sh "$log"
		exit 1
	fi
	times+=("$part $((SECONDS - begin)) s")
done
printf 'make test: %s, in all %s s\n' "$(IFS=,; echo "${times[*]}" | sed 's/,/, /g')" "$SECONDS"
sed 's/^/passed only when run again: /' "$RERUNS"
scripts/skipped.sh
