#!/usr/bin/env bash
# Builds the metrics-server that go.mod pins and prints the folder of the program. It is built once
# (about 90 s on 2 cores): the folder lies in the user's cache and is named after the versions of
# metrics-server and of Go.
set -euo pipefail
cd "$(dirname "$0")"
module=sigs.k8s.io/metrics-server
export GOFLAGS='-trimpath -mod=readonly'
version=$(sed -n "s|.*$module \(v[0-9.]*\).*|\1|p" go.mod | head -1)
sum=$(sha256sum go.mod go.sum | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/podwright/metrics-server-$version-$(go env GOVERSION)-$(go env GOARCH)-$sum
if [ ! -e "$folder" ]; then
	mkdir -p "$(dirname "$folder")"
	exec 9>"$(dirname "$folder")/metrics-server.lock"
	flock 9
fi
if [ ! -e "$folder" ]; then
	building=$(mktemp -d "$folder.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	began=$SECONDS
	CGO_ENABLED=0 go build -o "$building/" -ldflags='-s -w' $module/cmd/metrics-server >&2
	chmod 0755 "$building"
	mv -T "$building" "$folder"
	echo "metrics-server: built $folder in $((SECONDS - began)) s" >&2
fi
echo "$folder"
