#!/usr/bin/env bash
# Fails when a committed generated file is not what the code generates now: references in docs/, and with clang-14 the
# BPF objects. Builds into a scratch folder, so that the tree is never changed by a check.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

scripts/docs.sh "$tmp/docs"
for made in "$tmp"/docs/*; do
	diff -u "docs/$(basename "$made")" "$made" || { echo "fresh: docs/$(basename "$made") is stale: run make docs" >&2; exit 1; }
done
if command -v clang-14 >/dev/null 2>&1 && command -v llvm-strip-14 >/dev/null 2>&1 && [ -e /usr/include/bpf/bpf_helpers.h ]; then
	cp -r go.mod go.sum bpf "$tmp/"
	(cd "$tmp" && go generate ./bpf/...)
	diff -r bpf "$tmp/bpf" || { echo "fresh: the BPF objects are stale: run make generate" >&2; exit 1; }
else
	echo "fresh: BPF objects not compared (clang-14, llvm-14 and libbpf-dev would be needed)"
fi
