package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

// TestManifestGauges: section 4.1. While a source runs, gauges show how many pods it
// wants, how many of them it keeps although their manifest broke, and how many manifests
// have a problem. Afterwards the gauges are gone.
func TestManifestGauges(t *testing.T) {
	folder := t.TempDir()
	change := func(name, content string) { must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		g := &instrumenttest.Meter{}
		file, err := NewFile(folder, "node-1", FileOptions{PollOnly: true, Meter: g})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- file.Run(ctx, func(context.Context, []*v1.Pod) error { return nil }) }()
		show := func(what string, pods, kept, problems float64) {
			t.Helper()
			<-time.After(defaultPeriod)
			synctest.Wait()
			diff(t, what, map[string]float64{
				"podwright_syncloop_manifest_pods{source=file}":      pods,
				"podwright_syncloop_manifest_kept_pods{source=file}": kept,
				"podwright_syncloop_manifest_problems{source=file}":  problems,
			}, g.Read(t.Context()))
		}
		change("web.yaml", manifestOf("web", "app:1"))
		change("db.yaml", manifestOf("db", "app:1"))
		show("two pods", 2, 0, 0)
		change("web.yaml", "{")
		change("new.yaml", "{")
		change("odd.yaml", manifestOf("odd", "app:1")+"  colour: red\n")
		show("one breaks, one never was a pod, one has an unknown field", 3, 1, 3)
		change("web.yaml", manifestOf("web", "app:2"))
		show("repaired", 3, 0, 2)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		diff(t, "after the end", map[string]float64{}, g.Read(t.Context()))
	})
}
