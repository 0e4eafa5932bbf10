#!/usr/bin/env bash
# Prints the packages of one kind of test: unit, root (those with tests that need root) or scenarios; and of the unit tests those
# that do so much arithmetic that all of it runs only without the race detector.
set -euo pipefail
case "$1" in
unit) go list ./... | grep -vE '/(scenarios|e2e)(/|$)'; go list ./scenarios/fleet/... ./scenarios/report/... ;;
arithmetic) go list ./broker/acl/... ;;
root) go list ./bpf/... ./netlab/... ./internal/... ;;
scenarios) go list ./scenarios/... | grep -vE '/scenarios/(fleet|report)(/|$)' ;;
esac
