#!/usr/bin/env bash
# Prints the references that the code itself can print into the folder given.
set -euo pipefail
out=$1
mkdir -p "$out"
bin/brokerlab docs commands >"$out/commands.md"
bin/brokerlab docs config >"$out/config.md"
go run ./internal/reference >"$out/requests.md"
