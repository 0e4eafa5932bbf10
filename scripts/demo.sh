#!/usr/bin/env bash
# The demo: the quickstart lab, a look at it, its suites, and the lab gone again. usage: demo.sh BINARY (as root)
set -euo pipefail
brokerlab=$1
lab=examples/quickstart.yaml
report=reports/demo
[ "$(id -u)" = 0 ] || { echo "demo: needs root (or sudo): it makes network namespaces and loads eBPF programs" >&2; exit 2; }
trap '"$brokerlab" lab down "$lab" >/dev/null 2>&1 || true' EXIT

echo "== What this kernel and these privileges allow"
"$brokerlab" doctor || [ $? = 3 ] # 3: some feature is missing, and the table says what then degrades
echo
echo "== A lab with one broker and six client networks"
"$brokerlab" lab up "$lab"
"$brokerlab" lab exec "$lab" office -- "$PWD/$brokerlab" connections list --bootstrap-server broker1:9092
"$brokerlab" lab down "$lab"
echo
echo "== The suites: each promise in a lab of its own (about a minute)"
"$brokerlab" run listing accounting --report-dir "$report" || [ $? = 3 ] # 3: this kernel lacks what some promises need
if [ -n "${SUDO_UID:-}" ]; then chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" reports; fi # the reader's, not root's
