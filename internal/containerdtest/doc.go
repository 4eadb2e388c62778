// Package containerdtest gives tests a real container runtime: a containerd of
// their own, in a temporary folder, with a CNI network and images made on the
// spot. It needs root and a few Debian packages, but no image registry, no
// network and no containerd service; what it starts does not touch a containerd
// that already runs on the machine.
//
//	Start ──► slot lock ──► folder: config.toml, CNI conflist ──► containerd
//	             │                                                    ▲
//	             │          busybox + pause ──► OCI archive ──► ctr images import
//	             └─ bridge name, subnet
//
// Several instances run side by side, in one process or in several: each holds
// a numbered slot, from which its bridge name and subnet follow. Whoever takes
// a slot first removes what a killed test run left in it.
//
// The programs are the machine's, or those of another version in the folder that
// PODWRIGHT_CONTAINERD names; tools/ci/containerd2.sh builds such a folder.
//
// With CONTAINER_RUNTIME_ENDPOINT set, [Start] hands out that runtime instead of
// a private one. It pulls the image from a registry that the test serves, for which it
// must speak plain HTTP to registries on loopback, or has it already. When the test is
// over, the pods that use the image and the image are removed.
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
