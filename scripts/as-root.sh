#!/usr/bin/env bash
# Runs a command as root, through sudo if it asks for no password; otherwise says that NAME is skipped and why.
# usage: as-root.sh NAME COMMAND [ARG …]
set -euo pipefail
name=$1
shift
if [ "$(id -u)" = 0 ]; then
	exec "$@"
elif sudo -n true 2>/dev/null; then
	exec sudo -E env "PATH=$PATH" "$@"
fi
echo "$name: SKIPPED, neither root nor sudo without a password: namespaces and BPF need it"
