// Package containerdtest gives tests a real container runtime: their own containerd, in a temporary
// folder, with a CNI network and images built on the spot. It needs root and a few Debian packages,
// but no image registry, no network and no containerd service; what it starts does not touch a
// containerd that is already running on the machine.
//
//	Start ──► slot lock ──► folder: config.toml, CNI conflist ──► containerd
//	             │                                                    ▲
//	             │          busybox + pause ──► OCI archive ──► ctr images import
//	             └─ bridge name, subnet
//
// Several instances run side by side, in one process or in several: each holds a numbered slot,
// which determines its bridge name and subnet. The next holder of a slot first removes what a
// killed test run left in it.
//
// The programs are the machine's, or those of another version in the folder that
// PODWRIGHT_CONTAINERD names; tools/ci/containerd2.sh builds such a folder.
//
// With CONTAINER_RUNTIME_ENDPOINT set, [Start] hands out that runtime instead of a private one. The
// runtime either has the image already or pulls it from a registry that the test serves, so it must
// speak plain HTTP to registries on loopback. When the test is over, the image and the pods that
// use it are removed.
//
// [ServeRegistry] is an image registry on loopback, for tests of pulls.
//
// Tests that use the package carry the build tag "containerd". In such a build a
// missing runtime fails the test; it is never skipped:
//
//	go test -tags containerd ./...
//
// The package is not a runtime client: see runtime/cri for that.
package containerdtest
