#!/usr/bin/env bash
# The last words of `make test`: what did not run here, and why.
set -euo pipefail
[ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || echo "skipped: root tests, scenarios and black-box tests (neither root nor sudo without a password)"
command -v clang-14 >/dev/null 2>&1 || echo "skipped: rebuilding the BPF objects to compare (clang-14 is not installed; the committed ones were used)"
echo "make test: done"
