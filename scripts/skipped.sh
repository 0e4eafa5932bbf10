#!/usr/bin/env bash
# The last words of `make test`: what did not run here, and why.
set -euo pipefail
[ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || echo "skipped: root tests, scenarios and black-box tests (neither root nor sudo without a password)"
command -v clang-14 >/dev/null 2>&1 || echo "skipped: rebuilding the BPF objects to compare (clang-14 is not installed; the committed ones were used)"
for version in 4.4.0 4.3.0; do
	[ -d "${BROKERLAB_KAFKA_DIR:-build/kafka}/$version/libs" ] || echo "skipped: what needs Apache Kafka $version (make kafka could not get it with Maven)"
done
command -v java >/dev/null 2>&1 || echo "skipped: what needs Apache Kafka (Java is not installed)"
[ -d "${BROKERLAB_KAFKA_DIR:-build/kafka}/4.4.0/libs" ] || echo "skipped: what compares with Apache Kafka (make kafka says why it is not here)"
[ ! -e build/clients/skipped.txt ] || sed 's/^/skipped: client /' build/clients/skipped.txt
echo "make test: done"
