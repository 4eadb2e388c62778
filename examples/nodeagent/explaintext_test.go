package main

import "testing"

// An operator reads what a pod waits for, not which method of the engine works on it.
func TestPlainly(t *testing.T) {
	for waits, want := range map[string]string{
		"SyncPod to return: pulling image web": "pulling image web",
		"SyncPod to return":                    "a sync of the pod to end",
		"SyncTerminatingPod to return, cancelled because the grace period got shorter": "its containers to stop, cancelled because the grace period got shorter",
		"SyncTerminatingRuntimePod to return":                                          "its containers to stop",
		"SyncTerminatedPod to return":                                                  "what it leaves behind to be removed",
		"PullImage to return":                                                          "PullImage to return",
		"the next attempt":                                                             "the next attempt",
	} {
		if got := plainly(waits); got != want {
			t.Errorf("%q reads %q, want %q", waits, got, want)
		}
	}
}
