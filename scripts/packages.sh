#!/usr/bin/env bash
# Prints the packages of one kind of test: unit, root (those with tests that need root) or scenarios.
set -euo pipefail
case "$1" in
unit) go list ./... | grep -vE '/(scenarios|e2e)(/|$)'; go list ./scenarios/fleet/... ./scenarios/report/... ;;
root) go list ./bpf/... ./netlab/... ./internal/... ;;
scenarios) go list ./scenarios/... | grep -vE '/scenarios/(fleet|report)(/|$)' ;;
esac
