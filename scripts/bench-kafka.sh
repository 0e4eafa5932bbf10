#!/usr/bin/env bash
# Apache Kafka beside brokerlab, measured in one run: prints the table, and puts it between its marks in docs/benchmarks.md unless
# BENCH_DOCS=no. About ten minutes; wants a quiet machine. Where Kafka or Java is not there it says why and changes nothing.
set -euo pipefail
export BROKERLAB_BINARY=${BROKERLAB_BINARY:-$PWD/bin/brokerlab}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
BROKERLAB_BENCH_KAFKA=$table go test ./scenarios/bench -run '^$' -bench '^BenchmarkBesideKafka$' -benchtime 1x -timeout 60m -v
[ -s "$table" ] || { echo "bench-kafka: SKIPPED, for the reason above"; exit 0; }
echo
cat "$table"
[ "${BENCH_DOCS:-}" != no ] || exit 0
awk -v table="$table" '
	/^<!-- end of what make bench-kafka printed -->/ { inside = 0 }
	!inside
	/^<!-- what make bench-kafka printed -->/ { inside = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' docs/benchmarks.md >docs/benchmarks.md.new
mv docs/benchmarks.md.new docs/benchmarks.md
