#!/usr/bin/env bash
# Runs the tests that need nothing but Go, of every module, for make unit.
#
# The main module mostly computes, in virtual time; the others mostly wait, so they run
# beside it, and their results are printed after its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
inmemory=$PWD/tools/ci/inmemory.sh
race=${RACE--race}
# The modules make each other slow, not wrong.
export PODWRIGHT_PATIENCE=${PODWRIGHT_PATIENCE:-8}

tests() {
	local dir=$1
	shift
	# Without DWARF tables programs link in two thirds of the time; stack traces do not need them. On a busy
	# machine a package takes longer than the ten minutes that go test gives it.
	(cd "$dir" && "$inmemory" go test -timeout 45m -ldflags=-w "$@")
}

beside() {
	local code=0
	tests . ./internal/houserules || code=$? # one goroutine: with the race detector it takes eight times as long
	tests examples $race -parallel 4 ./... || code=$?
	tests kube $race ./... || code=$?
	tests tools ./... || code=$?
	return "$code"
}

output=$(mktemp)
trap 'rm -f "$output"' EXIT
beside >"$output" 2>&1 </dev/null &
waiting=$!
code=0
tests . $race $(go list -e ./... | grep -v /internal/houserules) || code=$?
wait "$waiting" || code=$?
cat "$output"
exit "$code"
