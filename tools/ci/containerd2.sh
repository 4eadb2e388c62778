#!/usr/bin/env bash
# Builds the containerd 2.x that tools/containerd2/go.mod pins (the daemon, its shim,
# ctr and runc) and prints the folder of the programs. It is built once: the folder
# lies in the user's cache and is named after the versions of containerd and of Go.
#
# runc is C too, and needs gcc and the headers of libseccomp. Without them the
# installed runc does, if it is 1.2 or newer for user namespaces.
set -euo pipefail
cd "$(dirname "$0")/../containerd2"
module=github.com/containerd/containerd/v2
runc=""
if command -v gcc >/dev/null && command -v pkg-config >/dev/null && pkg-config --exists libseccomp; then runc=-runc; fi
# The module's go.sum is all that says what is built.
sum=$(sha256sum go.mod go.sum | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/podwright/containerd-$(go list -m -f '{{.Version}}' $module)$runc-$(go env GOVERSION)-$(go env GOARCH)-$sum
if [ ! -e "$folder" ]; then
	mkdir -p "$(dirname "$folder")"
	building=$(mktemp -d "$folder.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	began=$SECONDS
	export GOFLAGS='-trimpath -mod=readonly'
	CGO_ENABLED=0 go build -ldflags='-s -w' -o "$building/" \
		$module/cmd/containerd $module/cmd/containerd-shim-runc-v2 $module/cmd/ctr >&2
	if [ -n "$runc" ]; then
		CGO_ENABLED=1 go build -tags seccomp -ldflags='-s -w' -o "$building/" github.com/opencontainers/runc >&2
	fi
	chmod 0755 "$building"
	# Another build may have been faster; its folder is as good.
	mv -T "$building" "$folder" 2>/dev/null || [ -e "$folder" ]
	echo "containerd2: built $folder in $((SECONDS - began)) s" >&2
fi
echo "$folder"
