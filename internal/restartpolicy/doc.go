// Package restartpolicy answers one question, both for the reconciler and for the status generator:
// may this container run again after it exited?
//
// The answer depends only on the pod's spec and the exit code
// (spec/runtime.md 6.1): exit rules first, then the container's own policy, then
// the pod's. The reasons that runtimes give for an end are named here, too.
package restartpolicy
