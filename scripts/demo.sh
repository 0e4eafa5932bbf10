#!/usr/bin/env bash
# The demo: the quickstart lab, a look at it, its suites, and the lab gone again. usage: demo.sh BINARY (as root)
set -euo pipefail
brokerlab=$1
lab=examples/quickstart.yaml
report=reports/demo
[ "$(id -u)" = 0 ] || { echo "demo: needs root (or sudo): it makes network namespaces and loads eBPF programs" >&2; exit 2; }
trap '"$brokerlab" lab down "$lab" >/dev/null 2>&1 || true' EXIT

"$brokerlab" doctor || [ $? = 3 ] # 3: some feature is missing, and the table says what then degrades
"$brokerlab" lab up "$lab"
"$brokerlab" lab inspect "$lab"
"$brokerlab" lab down "$lab"
"$brokerlab" run listing accounting --report-dir "$report"
echo "report: $report/report.html"
