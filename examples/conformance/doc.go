// Package conformance holds pods with their expected outcome, and checks them on
// a real container runtime: what a user may rely on, one manifest a promise.
//
//	manifests/*.yaml ──► engine ──► containerd
//	      │ expect/…        │ statuses, events, log files
//	      ▼                 ▼
//	  Expectation ──────► Check ──► what is not as expected
//
// The manifests are ordinary pods. Annotations say what must become of each:
//
//	expect/phase: Succeeded               the phase
//	expect/reason: DeadlineExceeded       the reason of the phase
//	expect/ready: "true"                  the Ready condition
//	expect/state.<container>              Running, "Terminated 42 Error", "Waiting CrashLoopBackOff|…"
//	expect/restarts.<container>           "0", ">=1"
//	expect/logs.<container>               all it has written, of all its runs
//	expect/message.<container>            its termination message; after ~ a regular expression
//	expect/order                          lines such as "one.finished <= two.started", "a.started + 2s <= b.started"
//	expect/event                          reasons of events, one a line
//	expect/or.<any of these>              what holds instead on runtimes that use the freedom of the CRI
//	expect/delete: "true"                 then take the pod away, and
//	expect/deleted.…                      what must be true of its last status
//
// In the manifests `busybox` stands for an image with busybox that is present,
// ${SCRATCH} for a folder of the node, ${REGISTRY} for a registry that asks for
// credentials and ${PRIVATE_IMAGE} for an image in it. objects/ has the config
// maps and secrets the pods refer to.
package conformance
