#!/usr/bin/env bash
# Installs what the demo and the tests need beside Go: real clients and a C compiler for the race detector.
# The same script provisions the Vagrant box. Run as root, or with sudo at hand. Asks the package manager only for what is missing.
set -euo pipefail

missing=()
want() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
want kcat kcat   # the black-box tests' client
want gcc gcc     # go test -race
want curl curl   # the guides' commands, which a test runs
want python3 python3
want ip iproute2 # to look into a lab by hand
[ "${BROKERLAB_DEPS_GO:-}" = 1 ] && want go golang-go # a go of 1.21 or newer fetches the one that go.mod names

if [ ${#missing[@]} -gt 0 ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "deps: please install ${missing[*]} (this machine has no apt-get)" >&2
		exit 1
	fi
	sudo=""
	[ "$(id -u)" = 0 ] || sudo="sudo"
	echo "deps: installing ${missing[*]}"
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
command -v go >/dev/null 2>&1 || { echo "deps: Go is needed (1.26, or 1.21 and newer, which fetches it): https://go.dev/doc/install" >&2; exit 1; }
