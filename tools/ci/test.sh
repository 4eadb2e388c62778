#!/usr/bin/env bash
# Runs the whole test suite and prints one summary.
#
#   tools/ci/test.sh         everything
#   tools/ci/test.sh --e2e   only what needs a real containerd
#
# As root on Debian it installs what it needs. Elsewhere set
# CONTAINER_RUNTIME_ENDPOINT to a CRI v1 socket (and have ctr in the PATH).
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
packages=(containerd runc containernetworking-plugins busybox-static iproute2)

die() {
	echo "test: $*" >&2
	exit 1
}

command -v go >/dev/null || die "Go is not in the PATH; install Go 1.26 or newer (https://go.dev/dl)"

prepare_runtime() {
	if [ -n "${CONTAINER_RUNTIME_ENDPOINT:-}" ]; then
		echo "test: using the container runtime at $CONTAINER_RUNTIME_ENDPOINT"
		return
	fi
	[ "$(id -u)" = 0 ] ||
		die "the containerd tests need root; run as root on Debian, or set CONTAINER_RUNTIME_ENDPOINT to a CRI socket you may use"
	local missing=()
	for p in "${packages[@]}"; do
		# Removed packages may leave their configuration behind: ask for the status.
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die "no apt-get here to install ${missing[*]}; install them, or set CONTAINER_RUNTIME_ENDPOINT to a CRI socket"
	echo "test: installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq || die "apt-get update failed; without a package mirror set CONTAINER_RUNTIME_ENDPOINT to a CRI socket"
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		die "apt-get install ${missing[*]} failed"
}

only_e2e=false
[ "${1:-}" = --e2e ] && only_e2e=true
race=${RACE--race}

if ! $only_e2e && [ "$(uname -s)" != Linux ]; then
	die "the suite runs on Linux; elsewhere use 'make unit'"
fi
prepare_runtime

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd tools && go build -o "$work/testsummary" ./testsummary)

# tests runs go test in a module and tells the summary how the command ended.
tests() {
	local dir=$1 code=0
	shift
	(cd "$dir" && go test -json -timeout 15m "$@") || code=$?
	echo "{\"Action\":\"exit\",\"Code\":$code}"
}

# One stream of events from every module; the exit code is the summary's.
events() {
	if ! $only_e2e; then
		tests . $race ./...
		tests examples $race ./...
		tests tools ./...
	fi
	# The containerd parts share one kernel's cgroups and mounts: one package
	# at a time. They are not cached: the kernel and containerd are part of them.
	tests . $race -count=1 -p 1 -tags containerd -run 'Containerd' ./runtime/... ./internal/containerdtest/...
	tests examples $race -count=1 -p 1 -tags containerd -run 'Containerd' ./...
}
mkdir -p "$root/bin"
rerun=()
# Only continuous integration asks for further runs of what failed (docs/testing.md).
[ -z "${PODWRIGHT_RERUN:-}" ] || rerun=(-rerun "$root" -- -timeout 15m $race)
events 2>&1 | "$work/testsummary" -log "$root/bin/test.log" "${rerun[@]}"
