#!/usr/bin/env bash
# A benchmark that prints a table, measured in one run: puts it between its marks in docs/benchmarks.md unless BENCH_DOCS=no. Minutes;
# wants a quiet machine. Where Kafka or Java is not there it says why and changes nothing.
# usage: bench-table.sh TARGET VARIABLE BENCHMARK    TARGET is the make target that the marks name, VARIABLE lets the benchmark run
set -euo pipefail
target=$1 variable=$2 benchmark=$3
export BROKERLAB_BINARY=${BROKERLAB_BINARY:-$PWD/bin/brokerlab}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
env "$variable=$table" go test ./scenarios/bench -run '^$' -bench "^$benchmark\$" -benchtime 1x -timeout 60m -v
[ -s "$table" ] || { echo "$target: SKIPPED, for the reason above"; exit 0; }
echo
cat "$table"
[ "${BENCH_DOCS:-}" != no ] || exit 0
awk -v table="$table" -v target="$target" '
	index($0, "<!-- end of what make " target " printed -->") == 1 { inside = 0 }
	!inside
	index($0, "<!-- what make " target " printed -->") == 1 { inside = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' docs/benchmarks.md >docs/benchmarks.md.new
mv docs/benchmarks.md.new docs/benchmarks.md
