#!/usr/bin/env bash
# Builds the servers that go.mod pins (etcd, kube-apiserver, kube-controller-manager,
# kube-scheduler) and kubectl, and prints the folder of the programs. They are built once
# (about 4 minutes on 2 cores): the folder lies in the user's cache and is named after the
# versions of Kubernetes and of Go.
set -euo pipefail
cd "$(dirname "$0")"
module=k8s.io/kubernetes
export GOFLAGS='-trimpath -mod=readonly'
version=$(sed -n "s|.*$module \(v[0-9.]*\).*|\1|p" go.mod | head -1)
sum=$(sha256sum go.mod go.sum | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/podwright/kubernetes-$version-$(go env GOVERSION)-$(go env GOARCH)-$sum
if [ ! -e "$folder" ]; then
	mkdir -p "$(dirname "$folder")"
	# One build at a time: two would not be faster than one after the other.
	exec 9>"$(dirname "$folder")/kubernetes.lock"
	flock 9
fi
if [ ! -e "$folder" ]; then
	building=$(mktemp -d "$folder.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	began=$SECONDS
	CGO_ENABLED=0 go build -o "$building/" \
		-ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version" \
		$module/cmd/kube-apiserver $module/cmd/kube-controller-manager $module/cmd/kube-scheduler $module/cmd/kubectl >&2
	CGO_ENABLED=0 go build -ldflags='-s -w' -o "$building/etcd" go.etcd.io/etcd/server/v3 >&2
	chmod 0755 "$building"
	mv -T "$building" "$folder"
	echo "kubernetes: built $folder in $((SECONDS - began)) s" >&2
fi
echo "$folder"
