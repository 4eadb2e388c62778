// Package runtime holds the types with which all other packages talk about a
// container runtime: the domain types ([Pod], [PodStatus], [ContainerStatus],
// [ContainerID]), the service interfaces a runtime implements
// ([RuntimeService], [ImageService]), the labels and annotations written on
// runtime objects, the error classes, and [View], which turns raw CRI lists
// into domain types.
//
//	RuntimeService ──ListPodSandbox──┐
//	  (CRI client,    ListContainers ├──► View ──► Pod        (what exists)
//	   process, fake) …Status────────┘         └─► PodStatus  (what it looks like)
//
// The package knows no v1.Pod, no worker and no status format. Method signatures are
// those of k8s.io/cri-api/pkg/apis, narrowed to what is used, so that any existing Go
// CRI client satisfies the interfaces.
//
// # Identity and ownership
//
// The pod UID is the key of everything. A sandbox or container belongs to a pod
// through its labels ([LabelPodUID] and others). Objects without these labels belong to
// other programs and never appear in a [View]. With an owner ID ([ViewOptions]) objects
// of other owners are invisible too.
//
// # Order of observations
//
// Wall clocks jump, so observations are ordered by [Stamp], a number drawn from
// one [Sequence] per engine. A status carries the stamp drawn before the list
// it was read from: it may be newer than it claims, never older.
package runtime
