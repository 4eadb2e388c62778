#!/usr/bin/env bash
# Runs every long test, one after the other, and ends with a table of name, time
# and result. A failure does not end it; the exit code tells of one.
#
#   tools/ci/marathon.sh [TARGET...]   these targets of the Makefile (default: all long ones)
#
# The output of each is bin/marathon/TARGET.log. The sizes are those of the targets;
# their variables (KILLS, SCHEDULES, TORTURE, ...) change them.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/bin/marathon
mkdir -p "$out"
export STATES=${STATES:-500000} # explore ends
export FUZZTIME=${FUZZTIME:-10m}
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(
	mutate-podworkers fuzz explore deletions rewrites faults-pleg faults-hour crash leak-hunt crowd deep-trees slices
	e2e crash-containerd kube-crash kube-long kube-offline kube-autoscale kube-certificates probes-kill evictions-kill tenant torture fleet bench-idle bench-node flake
)
table=""
code=0
for target in "${targets[@]}"; do
	echo "marathon: $target, output in bin/marathon/$target.log"
	began=$SECONDS
	result=passed
	make --no-print-directory "$target" >"$out/$target.log" 2>&1 || { result=FAILED code=1; tail -20 "$out/$target.log"; }
	table+=$(printf '%-20s %8s  %s' "$target" "$((SECONDS - began)) s" "$result")$'\n'
done
printf '\n%s' "$table"
exit $code
