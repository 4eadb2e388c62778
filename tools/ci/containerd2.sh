#!/usr/bin/env bash
# Builds the containerd 2.x that tools/containerd2/go.mod pins (the daemon, its shim
# and ctr) and prints the folder of the programs. It is built once: the folder lies
# in the user's cache and is named after the versions of containerd and of Go.
set -euo pipefail
cd "$(dirname "$0")/../containerd2"
module=github.com/containerd/containerd/v2
# The module's go.sum is all that says what is built.
sum=$(sha256sum go.mod go.sum | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/podwright/containerd-$(go list -m -f '{{.Version}}' $module)-$(go env GOVERSION)-$(go env GOARCH)-$sum
if [ ! -e "$folder" ]; then
	mkdir -p "$(dirname "$folder")"
	building=$(mktemp -d "$folder.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	began=$SECONDS
	CGO_ENABLED=0 GOFLAGS='-trimpath -mod=readonly' go build -ldflags='-s -w' -o "$building/" \
		$module/cmd/containerd $module/cmd/containerd-shim-runc-v2 $module/cmd/ctr >&2
	chmod 0755 "$building"
	# Another build may have been faster; its folder is as good.
	mv -T "$building" "$folder" 2>/dev/null || [ -e "$folder" ]
	echo "containerd2: built $folder in $((SECONDS - began)) s" >&2
fi
echo "$folder"
