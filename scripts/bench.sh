#!/usr/bin/env bash
# The benchmarks behind docs/benchmarks.md: all figures as go test prints them, then those that have a goal as a table.
# One iteration each where a run is long. Minutes; wants a quiet machine.
set -euo pipefail
export BROKERLAB_BINARY=${BROKERLAB_BINARY:-$PWD/bin/brokerlab}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
bench() { # package, benchmarks, how long each
	go test "$1" -run '^$' -bench "$2" -benchtime "$3" -timeout 10m | tee -a "$out"
}

bench ./scenarios/bench . 1x
bench ./broker/internal/network . 3s
bench ./broker/internal/engine . 1s
bench ./broker/acl . 1s
bench ./broker/quota . 1s
bench ./broker AuthorizedRequest 5000x
bench ./broker/internal/metadata Rules 1x
bench ./broker/internal/metadata Join 3x
bench ./broker/internal/metadata Propagation 1000x
[ "$(id -u)" != 0 ] || bench ./bpf/sockacct . 40x

echo
echo "$(date -u +%Y-%m-%d), $(nproc) cores ($(awk -F': ' '/model name/{print $2; exit}' /proc/cpuinfo)), $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r), $(go version | cut -d' ' -f3)"
echo
awk -F'|' '
	FNR == NR {
		if ($0 !~ /^Benchmark/) next
		split($0, word, /[ \t]+/)
		name = word[1]; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
		for (i = 3; i in word; i += 2) value[name "|" word[i + 1]] = word[i]
		next
	}
	/^#/ || !NF { next }
	FNR != NR && !head { print "| | measured | goal | |\n|---|---|---|---|"; head = 1 }
	{
		got = value[$1 "|" $2]
		verdict = got == "" ? "not measured" : got + 0 <= $3 + 0 ? "met" : "MISSED"
		printf "| %s | %s | at most %s | %s |\n", $4, got, $3, verdict
	}
' "$out" scripts/bench-goals.txt
