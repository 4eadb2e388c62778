#!/usr/bin/env bash
# A cluster of one node on this machine, for trying things out.
#
#   tools/ci/kube.sh up     starts it and returns when the Node is Ready
#   tools/ci/kube.sh down   ends it; nothing is left
#
# bin/kube/ gets kubeconfig, kubectl and the logs. It needs root and the Debian packages of
# the tests on a real containerd.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$PWD/bin/kube

die() {
	echo "kube: $*" >&2
	exit 1
}

# running says whether the process of an earlier start lives, and is that.
running() {
	[ -e "$dir/pid" ] && [ "$(readlink "/proc/$(cat "$dir/pid")/exe" 2>/dev/null)" = "$dir/up" ]
}

case ${1:-} in
up)
	running && die "a cluster is up already; make kube-down ends it"
	[ "$(id -u)" = 0 ] || die "it needs root, for containers"
	mkdir -p -m 0700 "$dir"
	rm -f "$dir/kubeconfig" "$dir/pid"
	PODWRIGHT_KUBERNETES=$(kube/apitest/servers/build.sh)
	export PODWRIGHT_KUBERNETES KUBE_UP=$dir
	(cd examples && go test -c -tags apiserver,containerd,kubeup -o "$dir/up" ./kubenode)
	cd "$dir"
	setsid "$dir/up" -test.run '^TestUp$' -test.timeout 0 -test.v >"$dir/up.log" 2>&1 </dev/null &
	echo $! >"$dir/pid"
	until [ -e "$dir/kubeconfig" ]; do
		kill -0 "$(cat "$dir/pid")" 2>/dev/null || {
			tail -40 "$dir/up.log" >&2
			die "the cluster did not start; the log is $dir/up.log"
		}
		sleep 0.2
	done
	echo "The Node is Ready. Go on with:"
	echo "  bin/kube/kubectl --kubeconfig bin/kube/kubeconfig get nodes,pods -A"
	echo "kubenode's log is bin/kube/kubenode.log; make kube-down ends everything."
	;;
down)
	running || {
		rm -f "$dir/pid" "$dir/kubeconfig"
		echo "kube: no cluster is up"
		exit 0
	}
	pid=$(cat "$dir/pid")
	kill -TERM "$pid"
	for _ in $(seq 600); do
		running || break
		sleep 0.2
	done
	! running || die "process $pid does not end; its log is $dir/up.log"
	rm -f "$dir/pid" "$dir/kubeconfig" "$dir/kubectl"
	echo "kube: everything has ended"
	;;
*) die "up or down?" ;;
esac
