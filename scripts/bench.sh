#!/usr/bin/env bash
# The benchmarks behind docs/benchmarks.md, one iteration each where a run is long. Minutes; wants a quiet machine.
set -euo pipefail
export BROKERLAB_BINARY=${BROKERLAB_BINARY:-$PWD/bin/brokerlab}
echo "# $(date -u +%Y-%m-%d), $(nproc) cores, $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r), $(go version | cut -d' ' -f3)"
go test ./scenarios/bench -run '^$' -bench . -benchtime 1x -timeout 30m
go test ./broker/internal/network -run '^$' -bench . -timeout 30m
go test ./broker/internal/engine -run '^$' -bench . -timeout 10m
[ "$(id -u)" != 0 ] || go test ./bpf/sockacct -run '^$' -bench . -timeout 10m
