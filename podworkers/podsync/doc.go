// Package podsync is the reference [podworkers.PodSyncer]: the transaction script of one
// pod, from its first container to its last status. It works over small interfaces, which
// the other packages of the module implement, and needs no engine.
//
// It holds no truth: what runs is known to the runtime, what is told to the status
// manager. A step that is repeated goes on where things are.
package podsync
