#!/usr/bin/env bash
# Builds the static binaries of a release and their checksums into the folder given: all of brokerlab for Linux, and for
# macOS the commands that only talk to brokers; the others say there that they need Linux. usage: release.sh DIR [OS/ARCH …]
set -euo pipefail
out=$1
shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
mkdir -p "$out"
rm -f "$out"/brokerlab-* "$out/SHA256SUMS"
for target; do
	file=brokerlab-${target/\//-}
	echo "release: $out/$file"
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} "${GO:-go}" build -buildvcs=auto -trimpath -ldflags '-s -w' -o "$out/$file" ./cmd/brokerlab
done
(cd "$out" && if command -v sha256sum >/dev/null; then sha256sum brokerlab-*; else shasum -a 256 brokerlab-*; fi >SHA256SUMS)
