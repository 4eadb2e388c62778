package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright/runtime/process"
)

// TestHelp: the help names the subcommands and the flags; a mistake is told in one line.
func TestHelp(t *testing.T) {
	var help bytes.Buffer
	if code := run([]string{"--help"}, process.Supervisor{}, nil, &help); code != 0 {
		t.Errorf("--help ends with %d", code)
	}
	for _, want := range []string{"nodeagent checkpoint list|show UID", "nodeagent cleanup --plan", "/explain/NAMESPACE/NAME", "-manifests string"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, &help)
		}
	}
	var mistake bytes.Buffer
	if code := run([]string{"--manifest", "x"}, process.Supervisor{}, nil, &mistake); code != 2 {
		t.Errorf("a mistake ends with %d", code)
	}
	if want := "nodeagent: flag provided but not defined: -manifest; see nodeagent --help\n"; mistake.String() != want {
		t.Errorf("got %q", &mistake)
	}
}

// TestEventsInTheLog: an event names the pod, its container, or the node.
func TestEventsInTheLog(t *testing.T) {
	for want, object := range map[string]apiruntime.Object{
		"pod=default/web":   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}},
		"pod=default/web o": &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web", FieldPath: "spec.containers{main}"},
		"node=edge-1":       &v1.ObjectReference{Kind: "Node", Name: "edge-1"},
	} {
		var line bytes.Buffer
		recorder{slog.New(slog.NewTextHandler(&line, nil))}.Eventf(object, v1.EventTypeWarning, "Why", "n is %d", 3)
		for _, want := range []string{"level=WARN", `msg="n is 3"`, "reason=Why", want} {
			if !strings.Contains(line.String(), want) {
				t.Errorf("%q lacks %q", &line, want)
			}
		}
	}
}
