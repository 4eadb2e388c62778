// Package conformance holds pods with their expected outcomes and checks them on a real container
// runtime. Each manifest is one promise that a user may rely on.
//
//	manifests/*.yaml ──► engine ──► containerd
//	      │ expect/…        │ statuses, events, log files
//	      ▼                 ▼
//	  Expectation ──────► Check ──► what differs from the expectation
//
// The manifests are ordinary pods. Annotations state the expected outcome of each:
//
//	expect/phase: Succeeded               the phase
//	expect/reason: DeadlineExceeded       the reason of the phase
//	expect/ready: "true"                  the Ready condition
//	expect/state.<container>              Running, "Terminated 42 Error", "Waiting CrashLoopBackOff|…"
//	expect/restarts.<container>           "0", ">=1"
//	expect/logs.<container>               everything it has written, over all its runs
//	expect/message.<container>            its termination message; after ~ a regular expression
//	expect/order                          lines such as "one.finished <= two.started", "a.started + 2s <= b.started"
//	expect/event                          reasons of events, one per line
//	expect/or.<any of these>              an accepted alternative where the CRI leaves runtimes a choice
//	expect/delete: "true"                 then delete the pod, and
//	expect/deleted.…                      what must be true of its last status
//
// In the manifests `busybox` stands for an image with busybox that is present,
// ${SCRATCH} for a folder of the node, ${REGISTRY} for a registry that asks for
// credentials and ${PRIVATE_IMAGE} for an image in it. objects/ has the config
// maps and secrets the pods refer to.
package conformance
