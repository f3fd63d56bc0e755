#!/bin/sh
# Runs every Go fuzzer of the repository in turn: fuzz.sh TIME
# Fuzzers are found by name, so that none is forgotten. Each package is built once;
# a test binary takes one fuzzer at a time, and runs in the folder of its package.
set -eu
time=$1
count=0
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT
# over says whether a fuzzer failed by the end of its time alone: package testing may
# report that as the failure of an input that it then does not have.
over() {
	grep -q '^    context deadline exceeded$' "$1" && ! grep -q -e 'Failing input' -e 'panic' -e '_test.go:' "$1"
}
built=
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	folder=$(dirname "$file")
	if [ "$folder" != "$built" ]; then
		"${GO:-go}" test -c -fuzz . -o "$work/fuzz.test" "$folder"
		built=$folder
	fi
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		(cd "$folder" && exec "$work/fuzz.test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$time" \
			-test.fuzzcachedir "$work/corpus/$folder") >"$log" 2>&1 || over "$log" || {
			cat "$log"
			exit 1
		}
		echo "$folder $name: $(sed -n 's/.*\(execs: [0-9]*\).*/\1/p' "$log" | tail -1)"
		count=$((count + 1))
	done
done
echo "$count fuzzers ran for $time each"
