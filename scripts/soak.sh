#!/usr/bin/env bash
# Repeats for minutes what elsewhere is tested a few times, with a line of progress every few seconds and figures at the end.
# SOAK_KILLS, SOAK_LABS and SOAK_CONNECTIONS say how often. Root; wants a quiet machine.
set -euo pipefail
export BROKERLAB_BINARY=${BROKERLAB_BINARY:-$PWD/bin/brokerlab}
echo "# $(date -u +%Y-%m-%d), $(nproc) cores, Linux $(uname -r), $(go version | cut -d' ' -f3)"
go test -tags soak ./scenarios/soak -count=1 -timeout 60m -v
