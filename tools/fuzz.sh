#!/bin/sh
# Runs every Go fuzzer of the repository in turn: fuzz.sh TIME
# Fuzzers are found by name, so that none is forgotten; go test -fuzz takes one at a time.
set -eu
time=$1
count=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	folder=$(dirname "$file")
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		"${GO:-go}" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$folder" >"$log" 2>&1 || {
			cat "$log"
			exit 1
		}
		echo "$folder $name: $(sed -n 's/.*\(execs: [0-9]*\).*/\1/p' "$log" | tail -1)"
		count=$((count + 1))
	done
done
echo "$count fuzzers ran for $time each"
