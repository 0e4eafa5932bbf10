#!/usr/bin/env bash
# Installs the clients of Python and Node that e2e/clients runs, below build/clients: venv and node_modules, at the versions
# pinned beside their programs. It does nothing where they are there already. Where a registry can't be reached, or Python or
# npm is missing, it says so and ends 0: the tests of those clients then skip, with that reason.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=e2e/clients/programs
into=build/clients
mkdir -p "$into"

# installed FOLDER PIN says whether FOLDER was made of what PIN holds now; each install leaves a copy of its pins behind.
installed() { [ -e "$1" ] && cmp -s "$2" "$1.pins"; }

# install FOLDER PIN NAME COMMAND... makes FOLDER with COMMAND, whose last words are the reason when it fails.
install() {
	local folder=$1 pin=$2 name=$3 log=$1.log
	shift 3
	if installed "$folder" "$pin"; then
		echo "clients: $name: installed already in $folder"
		return
	fi
	rm -rf "$folder" "$folder.pins"
	echo "clients: $name: installing into $folder (half a minute)"
	if "$@" >"$log" 2>&1; then
		cp "$pin" "$folder.pins"
		rm -f "$log" "$folder.why"
		return
	fi
	rm -rf "$folder"
	# npm's reason is somewhere in the middle, pip's and the others' in the last line.
	{ grep -m 1 'Error: ' "$log" || tail -n 1 "$log"; } | cut -c 1-200 >"$folder.why"
	echo "clients: $name: NOT installed, its tests will be skipped: $(cat "$folder.why")"
}

python_clients() {
	command -v python3 >/dev/null || { echo "python3 is not installed"; return 1; }
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "$(python3 --version) is older than 3.10"; return 1; }
	python3 -m venv "$into/venv" || return 1
	"$into/venv/bin/pip" install --quiet --no-input --disable-pip-version-check --retries 2 --timeout 20 \
		--only-binary :all: --requirement "$programs/requirements.txt"
}

node_clients() {
	command -v node >/dev/null || { echo "node is not installed"; return 1; }
	command -v npm >/dev/null || { echo "npm is not installed"; return 1; }
	local work
	work=$(mktemp -d "$into/npm.XXXXXX")
	cp "$programs/kafkajs/package.json" "$programs/kafkajs/package-lock.json" "$work/"
	(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 1 --loglevel error) || { rm -rf "$work"; return 1; }
	mv "$work/node_modules" "$into/node_modules"
	rm -rf "$work"
}

install "$into/venv" "$programs/requirements.txt" "Python clients" python_clients
install "$into/node_modules" "$programs/kafkajs/package-lock.json" "kafkajs" node_clients
