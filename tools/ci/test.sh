#!/usr/bin/env bash
# Runs the whole test suite and prints one summary.
#
#   tools/ci/test.sh         everything
#   tools/ci/test.sh --e2e   only what needs a real containerd
#
# As root on Debian it installs what it needs, and builds containerd 2.x from its Go
# module: the tests of a real runtime run on both. CONTAINERD chooses one of them:
#
#   CONTAINERD=installed   the containerd in the PATH
#   CONTAINERD=2           the one that tools/containerd2 pins
#
# Elsewhere set CONTAINER_RUNTIME_ENDPOINT to a CRI v1 socket.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
packages=(containerd runc containernetworking-plugins busybox-static iproute2)
# With these the runc of containerd 2.x is built too; without, the installed one does.
headers=(gcc pkg-config libseccomp-dev)

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
	install "${packages[@]}" || die "apt-get failed; install ${packages[*]}, or set CONTAINER_RUNTIME_ENDPOINT to a CRI socket"
	PODWRIGHT_PROMTOOL=$(promtool_program) || die "apt-get failed; put promtool, of Debian's package prometheus, into the PATH"
	export PODWRIGHT_PROMTOOL
	[ "${CONTAINERD:-both}" = installed ] || install "${headers[@]}" || echo "test: user namespaces are not tested without the packages ${headers[*]}"
}

# installed says whether a package is there. A removed one may have left its
# configuration behind, so its status is what counts.
installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install installs what is missing of some packages, and fails if it cannot.
install() {
	local missing=()
	for p in "$@"; do
		installed "$p" || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "test: installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# promtool_program prints where promtool is, which checks the alerts of examples/nodeagent/observability.
# It is unpacked from Debian's package: installed, that would also start a server on every address.
promtool_program() {
	command -v promtool && return
	local folder=${XDG_CACHE_HOME:-$HOME/.cache}/podwright/promtool
	if [ ! -x "$folder/usr/bin/promtool" ]; then
		echo "test: unpacking promtool" >&2
		rm -rf "$folder" && mkdir -p "$folder" &&
			(cd "$folder" && apt-get update -qq && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >&2
	fi
	[ -x "$folder/usr/bin/promtool" ] && echo "$folder/usr/bin/promtool"
}

only_e2e=false
[ "${1:-}" = --e2e ] && only_e2e=true
race=${RACE--race}

if ! $only_e2e && [ "$(uname -s)" != Linux ]; then
	die "the suite runs on Linux; elsewhere use 'make unit'"
fi
prepare_runtime

# The folders of the programs of each runtime; the installed one has none.
runtimes=("")
if [ -z "${CONTAINER_RUNTIME_ENDPOINT:-}" ]; then
	case ${CONTAINERD:-both} in
	installed) ;;
	2 | both)
		second=$(tools/ci/containerd2.sh) || die "containerd 2.x does not build; CONTAINERD=installed tests without it"
		runtimes=("$second")
		[ "${CONTAINERD:-both}" = 2 ] || runtimes=("" "$second")
		;;
	*) die "CONTAINERD is $CONTAINERD; want installed, 2 or both" ;;
	esac
fi

# The servers of Kubernetes are built from their modules, too.
if ! $only_e2e; then
	PODWRIGHT_KUBERNETES=$(kube/apitest/servers/build.sh) || die "the servers of Kubernetes do not build"
	PODWRIGHT_METRICS_SERVER=$(kube/apitest/metricsserver/build.sh) || die "metrics-server does not build"
	export PODWRIGHT_KUBERNETES PODWRIGHT_METRICS_SERVER
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd tools && go build -o "$work/bin/" ./testsummary ./fuzz)

# Whoever else uses the machine makes the tests of real things slow, not wrong.
export PODWRIGHT_PATIENCE=${PODWRIGHT_PATIENCE:-8}
# go test remembers results, and looks at no file outside a module: the tests of examples that read pages of docs ask for this.
PODWRIGHT_DOCS=$(cat docs/*.md docs/guide/*.md | sha256sum | cut -c1-64)
export PODWRIGHT_DOCS
# Without DWARF tables programs link in two thirds of the time; stack traces do not need them.
flags=(-timeout 45m -ldflags=-w)

# What go test runs under. The folders of a real containerd stay on the disk, as everywhere else.
under=()

# tests runs go test in a module and tells the summary how the command ended.
tests() {
	local dir=$1 code=0
	shift
	(cd "$dir" && "${under[@]}" go test -json "${flags[@]}" "$@") || code=$?
	exited "$code"
}

# exited tells the summary how a command ended.
exited() { echo "{\"Action\":\"exit\",\"Code\":$1}"; }

# beside starts a command that runs beside this one, and writes into the file of the given
# name. It has a process group of its own, which ends with this shell.
running=()
beside() {
	local output=$work/$1
	shift
	set -m
	"$@" >"$output" 2>&1 </dev/null &
	set +m
	running+=($!)
}

# Lanes run side by side:
#
#   compute  the unit tests of the main module, which mostly compute, in virtual time, and of the
#            other modules; then those of the module kube on a real API server, beside fuzzing
#   real-N   the tests on one containerd, which mostly wait; the first lane begins with those that
#            need an API server too, so that the crowds of the lanes come one after the other
#
# They share nothing but the CPU: every test on a containerd or an API server has one of its
# own, with its own folders, addresses and cgroups (internal/containerdtest, kube/apitest).
compute() {
	local code=0
	units tests . $race $(go list -e ./... | grep -v /internal/houserules)
	units tests . ./internal/houserules # one goroutine: with the race detector it takes eight times as long
	others
	beside fuzz fuzz
	local fuzzing=$!
	tests kube $race -count=1 -p 2 -tags apiserver -run APIServer $(with_tests kube apiserver .)
	wait "$fuzzing" || code=$?
	tee "$root/bin/fuzz.log" <"$work/fuzz"
	exited "$code"
}

# others has the other modules, after the main one: with a lane of their own they had too little
# of two processors while everything was compiled.
others() {
	units tests examples $race -parallel 4 ./... # those of nodeagent mostly wait
	units tests kube $race ./...
	units tests tools -count=1 ./... # they read all modules
}

# units runs a command for unit tests: they have no limits that depend on the CPU, so they leave
# it to the tests of real things.
units() {
	local under=(nice -n 10 "$root/tools/ci/inmemory.sh")
	"$@"
}

# fuzz runs every fuzz target for a while, on the CPU that all other tests leave over.
fuzz() {
	nice -n 19 tools/ci/inmemory.sh "$work/bin/fuzz" -root . -time "${FUZZTIME:-10s}"
}

# real has the tests on one containerd. They are not cached: the kernel and containerd are part
# of them. A crowd of pods beside other tests takes longer than after them, so the examples run
# one by one.
real() {
	local containerd=($race -count=1 -p 2 -parallel 4 -tags containerd -run Containerd)
	export PODWRIGHT_CONTAINERD=$1
	echo "{\"Action\":\"runtime\",\"Runtime\":\"$(runtime_name)\",\"Programs\":\"$1\"}"
	tests . "${containerd[@]}" $(with_tests . containerd runtime)
	tests . "${containerd[@]}" ./internal/containerdtest
	tests examples "${containerd[@]}" -p 1 $(with_tests examples containerd . | grep -v nodeagent)
	tests examples "${containerd[@]}" -run "$(agent_tests)" ./nodeagent
	tests kube "${containerd[@]}" $(with_tests kube containerd .)
}

# agent_tests is the expression for the tests of a whole agent on a containerd. They take the most
# time, and little of them is about the version: with two, each runs on one of them, the larger
# share in the lane that has no API server, and make e2e has all of them on both.
agent_tests() {
	if $only_e2e || [ ${#runtimes[@]} = 1 ]; then
		echo Containerd
		return
	fi
	local share='!= 0'
	[ -n "$PODWRIGHT_CONTAINERD" ] || share='== 0'
	grep -ho '^func TestContainerd[A-Za-z0-9]*' examples/nodeagent/*_test.go | sort |
		awk "NR % 3 $share {print \$2}" | paste -sd '|' | sed 's/.*/^(&)$/'
}

# real_first is the first of these lanes.
real_first() {
	$only_e2e || tests examples $race -count=1 -parallel 3 -tags apiserver,containerd -run ContainerdAPIServer ./kubenode
	real "$1"
}

# compile compiles what the lanes need: go commands side by side would each do so. What
# does not compile is reported by the tests.
compile() {
	local dir
	for dir in . examples kube; do
		(cd "$dir" && go list $race -export -deps -f '' ./... >/dev/null 2>&1) || true
	done
}

# One stream of events from every module; the exit code is the summary's. All events after one
# of a runtime are about that runtime, so the lanes that have them come last, one after the other.
events() {
	trap 'for pid in "${running[@]}"; do kill -- "-$pid" 2>/dev/null || true; done' EXIT
	compile
	local i lane=real_first lanes=()
	for i in "${!runtimes[@]}"; do
		beside "real-$i" "$lane" "${runtimes[i]}"
		lanes+=($!)
		lane=real
	done
	$only_e2e || compute
	for i in "${!lanes[@]}"; do
		show "real-$i" "${lanes[i]}"
	done
}

# show prints what a lane says until it has ended.
show() {
	tail -n +1 -s 0.2 -f --pid="$2" "$work/$1"
	wait "$2"
}

# runtime_name is how the summary calls the runtime of the next tests.
runtime_name() {
	if [ -n "${CONTAINER_RUNTIME_ENDPOINT:-}" ]; then
		echo "$CONTAINER_RUNTIME_ENDPOINT"
		return
	fi
	# "containerd github.com/containerd/containerd v2.4.2 REVISION"
	"${PODWRIGHT_CONTAINERD:+$PODWRIGHT_CONTAINERD/}containerd" --version | sed -E 's/^containerd [^ ]+ v?([0-9.]+).*/containerd \1/'
}

# with_tests lists the packages of a module's folder that have tests of a build tag.
with_tests() {
	(cd "$1" && grep -rlZ --include='*_test.go' "^//go:build $2" "$3" | xargs -0 -n 1 dirname | sort -u | sed 's|^\(\./\)\{0,1\}|./|')
}
mkdir -p "$root/bin"
# A program built with -race sleeps a second when it ends, to catch races of what
# still runs. The tests check for goroutines that still run.
export GORACE="atexit_sleep_ms=10 ${GORACE:-}"
rerun=()
# Only continuous integration asks for further runs of what failed (docs/testing.md).
[ -z "${PODWRIGHT_RERUN:-}" ] || rerun=(-rerun "$root" -- "${flags[@]}" $race)
events 2>&1 | "$work/bin/testsummary" -log "$root/bin/test.log" "${rerun[@]}"
