package main

import (
	"fmt"
	"testing"
)

// TestEventLog: the newest events are kept; a reader that is slow learns how many it missed, and one
// that waits is woken up.
func TestEventLog(t *testing.T) {
	var l eventLog
	_, next, _, changed := l.from(0)
	for i := range keptEvents + 10 {
		l.add(event{Message: fmt.Sprint(i)})
	}
	<-changed
	events, after, missed, _ := l.from(next)
	if len(events) != keptEvents || missed != 10 || after != keptEvents+10 || events[0].Message != "10" {
		t.Errorf("%d events from %q on, %d missed, next %d", len(events), events[0].Message, missed, after)
	}
	if events, _, missed, _ := l.from(after); len(events) != 0 || missed != 0 {
		t.Errorf("after all: %v, %d missed", events, missed)
	}
}

func TestEventFilter(t *testing.T) {
	web := event{Kind: "pod", Name: "default/web-n1"}
	for pod, want := range map[string]bool{"": true, "web": true, "web-n1": true, "default/web": true, "other/web": false, "we": false} {
		if got := (eventFilter{node: "n1", pod: pod}).has(web); got != want {
			t.Errorf("%q: %v", pod, got)
		}
	}
	if (eventFilter{node: "n1", pod: "n1"}).has(event{Kind: "node", Name: "n1"}) {
		t.Error("a pod's name finds the node")
	}
}

// The events of a sidecar, of an init container and of an ephemeral one name it, as those of others do.
func TestEventNamesItsContainer(t *testing.T) {
	for part, want := range map[string]string{
		"": "default/web", "spec.containers{main}": "default/web main", "spec.initContainers{side}": "default/web side", "spec.ephemeralContainers{debug}": "default/web debug",
	} {
		if got := (event{Kind: "pod", Name: "default/web", Part: part}).row()[3]; got != want {
			t.Errorf("%q reads %q, want %q", part, got, want)
		}
	}
}
