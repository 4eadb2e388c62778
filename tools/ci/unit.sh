#!/usr/bin/env bash
# Runs the tests that need nothing but Go, of every module, for make unit.
#
# The main module mostly computes, in virtual time; the others mostly wait, so they run
# beside it, and their results are printed after its own. The commands and their variables are
# those of test.sh, so that the go command remembers one result for both.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
race=${RACE--race}
# The modules make each other slow, not wrong.
export PODWRIGHT_PATIENCE=${PODWRIGHT_PATIENCE:-8}
# go test remembers results, and looks at no file outside a module: the tests of examples that read pages of docs ask for this.
PODWRIGHT_DOCS=$(cat docs/*.md docs/guide/*.md | sha256sum | cut -c1-64)
export PODWRIGHT_DOCS

tests() {
	local dir=$1 code=0
	shift
	# Without DWARF tables programs link in two thirds of the time; stack traces do not need them. On a busy
	# machine a package takes longer than the ten minutes that go test gives it.
	(cd "$dir" && "$root/tools/ci/inmemory.sh" go test -json -timeout 45m -ldflags=-w "$@") || code=$?
	echo "{\"Action\":\"exit\",\"Code\":$code}"
}

beside() {
	tests . ./internal/houserules # one goroutine: with the race detector it takes eight times as long
	tests examples $race -parallel 4 ./...
	tests kube $race ./...
	tests tools -count=1 ./... # they read all modules
}

events() {
	beside >"$work/beside" 2>&1 </dev/null &
	local waiting=$!
	tests . $race $(go list -e ./... | grep -v /internal/houserules)
	wait "$waiting"
	cat "$work/beside"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p bin
(cd tools && go build -o "$work/" ./testsummary)
events 2>&1 | "$work/testsummary" -log bin/unit.log
