#!/usr/bin/env bash
# Checks the systems that this machine is not: vets everything for Linux on arm64, builds a release for it and for macOS into a
# scratch folder, and checks what is in it.
set -euo pipefail
go=${GO:-go}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

CGO_ENABLED=0 GOOS=linux GOARCH=arm64 "$go" vet ./...
scripts/release.sh "$tmp" linux/arm64 darwin/arm64
for f in "$tmp"/brokerlab-*; do
	"$go" version -m "$f" | grep -q 'CGO_ENABLED=0' || { echo "cross: $(basename "$f") is not static" >&2; exit 1; }
done
for f in "$tmp"/brokerlab-darwin-*; do
	grep -qa 'The Vagrantfile of the source tree' "$f" || { echo "cross: $(basename "$f") does not say how to get Linux" >&2; exit 1; }
	grep -qa 'kafka-client-connections.sh' "$f" || { echo "cross: $(basename "$f") lacks connections list" >&2; exit 1; }
done
