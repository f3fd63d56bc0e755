#!/bin/sh
# Runs every Go fuzzer of the repository in turn: fuzz.sh TIME
# Fuzzers are found by name, so that none is forgotten; go test -fuzz takes one at a time.
set -eu
time=$1
count=0
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "fuzz $(dirname "$file") $name"
		"${GO:-go}" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$(dirname "$file")"
		count=$((count + 1))
	done
done
echo "$count fuzzers ran for $time each"
