#!/usr/bin/env bash
# Runs every test COUNT times in random order with the race detector, package by
# package: first alone, then beside processes that take every CPU. Nothing is
# repeated because it failed, and a failure does not end the run.
#
#   COUNT=50        runs of each test
#   PACKAGES=...    packages of the main module or, as ./examples/... and ./kube/..., of the others
#   RUN=regexp      only these tests
#   E2E=1           the tests on a real containerd instead of the others
#
# The output of what failed stays in bin/flake; it begins with the seed of the
# order ("-test.shuffle 123"), which -shuffle=123 repeats.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=${COUNT:-50}
out=$PWD/bin/flake
rm -rf "$out"
mkdir -p "$out"
race=${RACE--race}

flags=(-count="$count" -shuffle=on -timeout 0 $race)
if [ -n "${E2E:-}" ]; then
	flags+=(-tags containerd -run "${RUN:-Containerd}")
else
	flags+=(-run "${RUN:-.}")
fi
tags=()
memory=()
[ -n "${E2E:-}" ] || memory=("$PWD/tools/ci/inmemory.sh")
[ -z "${E2E:-}" ] || tags=(-tags containerd)

hogs=()
stop_hogs() {
	for pid in "${hogs[@]}"; do kill "$pid" 2>/dev/null || true; done
	hogs=()
}
trap stop_hogs EXIT
start_hogs() {
	for ((i = 0; i < $(nproc); i++)); do
		sh -c 'while :; do :; done' &
		hogs+=($!)
	done
}

# packages prints "module package" of every package that has tests.
packages() {
	for module in . examples kube; do
		local patterns=() p
		for p in ${PACKAGES:-./... ./examples/... ./kube/...}; do
			case $p in
			./examples/* | ./kube/*) [[ $p != "./$module/"* ]] || patterns+=("./${p#"./$module/"}") ;;
			*) [ $module != . ] || patterns+=("$p") ;;
			esac
		done
		[ ${#patterns[@]} -gt 0 ] || continue
		(cd $module && go list "${tags[@]}" -f '{{if or .TestGoFiles .XTestGoFiles}}'$module' {{.ImportPath}}{{end}}' "${patterns[@]}")
	done
}

failed=0
all=$(packages)
for hog in alone hog; do
	[ $hog = alone ] || start_hogs
	while read -r module package; do
		[ -n "$package" ] || continue
		log=$out/$(echo "$package" | tr / -)-$hog.log
		began=$SECONDS
		if (cd "$module" && "${memory[@]}" go test "${flags[@]}" "$package") >"$log" 2>&1; then
			printf 'ok    %-6s %5ds  %s\n' $hog $((SECONDS - began)) "$package"
			rm "$log"
			continue
		fi
		failed=$((failed + 1))
		printf 'FAIL  %-6s %5ds  %s (%s; output: %s)\n' $hog $((SECONDS - began)) "$package" "$(grep -m1 -o 'test.shuffle [0-9]*' "$log" || echo 'no seed')" "$log"
		grep -E '^ *--- FAIL|^panic:|WARNING: DATA RACE|^goleak' "$log" | sort | uniq -c || tail -5 "$log"
	done <<<"$all"
done
stop_hogs
echo "flake: $failed failed runs of packages, $count runs of each test, twice"
[ "$failed" = 0 ]
