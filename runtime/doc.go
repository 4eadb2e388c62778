// Package runtime holds the types with which all other packages talk about what a
// container runtime shows: the domain types ([Pod], [PodStatus], [ContainerStatus],
// [ContainerID]), the labels and annotations written on runtime objects, and the error
// classes ([ErrNotFound] and others).
//
// Package runtime/cri has the interfaces that a runtime implements, and turns what it
// answers into these types.
//
// The package depends on neither the CRI nor v1.Pod, workers or status formats: a program
// that uses package podworkers with a PodSyncer of its own links neither gRPC nor the CRI.
//
// # Order of observations
//
// Wall clocks jump, so observations are ordered by [Stamp], a number drawn from
// one [Sequence] per engine. A status carries the stamp drawn before the list
// it was read from: it may be newer than it claims, never older.
package runtime
