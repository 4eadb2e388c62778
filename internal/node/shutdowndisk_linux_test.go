package node

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestHungDiskHoldsNoShutdown: IN1. Pods are told to stop, and the shutdown ends, although its own record cannot be
// written. A pipe without a reader stands in for the disk.
func TestHungDiskHoldsNoShutdown(t *testing.T) {
	s, workers := newShutdown(t, newPod("a"))
	if err := os.MkdirAll(filepath.Dir(s.File), 0o700); err != nil {
		t.Fatal(err)
	}
	pipe := s.File + durable.Suffix
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := s.Run(t.Context(), shutdown.Plan{})
	if err != nil || len(report.Pods) != 1 || report.Pods[0].Phase != v1.PodFailed || report.Ended.IsZero() || len(workers.calls.take()) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY, 0) // the disk answers
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if lost := s.notes.Leave(logr.Discard()); lost != nil {
		t.Errorf("%v is still under way", lost)
	}
}
