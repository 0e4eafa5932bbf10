#!/usr/bin/env bash
# Prints what failed in the output of one part of `make test`, each failure with the beginning of its own messages: the output itself
# has what broker and Kafka said, too, and whoever sees only its end should see why.
# usage: failures.sh LOG
set -euo pipefail
found=$(sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
function show(line) { print substr(line, 1, 400) }
# more lines that belong to the one before, at most n
function follow(n) { left = n }

/^( *---|===) FAIL: / { show($0); inside = 1; told = 0; left = 0; next }
/^( *--- (PASS|SKIP): |DONE )/ { inside = 0; left = 0; next }
/^(ok|PASS|\?)[ \t]/ { inside = 0; left = 0; next }
/^FAIL[ \t]/ { show($0); inside = 0; follow(/^FAIL \.\// ? 20 : 0); next }                # a package, or a fuzz target
/^(panic: |fatal error: |WARNING: DATA RACE|unexpected fault)/ { show($0); follow(15); next }
/^# / { show($0); building = 1; next }                                                   # a package that does not build
building && /^(\.\/|vet: )?[^ ]+\.go:[0-9]+/ { show($0); next }
{ building = 0 }
/^[^ ]+\.go:[0-9]+:[0-9]+: / { show($0); next }                                          # the linter
/^(differences\.txt:[0-9]+|fresh|cross|kafka|deps): / { show($0); next }
/^ *\[FAILED\] [^i]/ { show($0); follow(12); next }                                      # Ginkgo: the message, up to its place
/^ *In \[/ { if (left) show($0); left = 0; next }
/^Summarizing / { show($0); follow(30); next }
inside && /^ +[^ ]+\.go:[0-9]+: .* said:$/ { left = 0; next }                             # what a process said
inside && /^ +[^ ]+\.go:[0-9]+: / { left = 0; if (told++ < 8) { show($0); follow(25) } next }
/^ *time=[0-9-]+T/ { next }
left > 0 { if ($0 ~ /[^ ]/) show($0); left--; next }
' | head -n 150)
if [ -n "$found" ]; then
	printf '%s\n' "$found"
else
	tail -n 25 "$1"
fi
