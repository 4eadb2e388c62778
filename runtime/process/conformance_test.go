//go:build linux

package process

import (
	"testing"
	"time"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// The public suite, with and without supervisors.
func TestConformance(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.name, func(t *testing.T) {
			runtimetest.Run(t, func(t *testing.T) runtimetest.Subject {
				r := newRuntime(t, mode.supervisor)
				return runtimetest.Subject{
					Runtime: r, Images: r, Image: "host", Command: runtimetest.Shell("/bin/sh"),
					Limits:  runtimetest.Limits{NoPodIP: true, NoMounts: true},
					Timeout: patience.Of(time.Minute), LogWait: patience.Of(2 * time.Second),
				}
			})
		})
	}
}

// The same in a root file system of its own, with mounts: for root only.
func TestConformanceRootFS(t *testing.T) {
	root := rootFS(t)
	for _, mode := range modes() {
		t.Run(mode.name, func(t *testing.T) {
			runtimetest.Run(t, func(t *testing.T) runtimetest.Subject {
				r := newRuntime(t, mode.supervisor)
				return runtimetest.Subject{
					Runtime: r, Images: r, Image: root, Command: runtimetest.Shell("/bin/busybox", "sh"),
					Limits:  runtimetest.Limits{NoPodIP: true},
					Timeout: patience.Of(time.Minute), LogWait: patience.Of(2 * time.Second),
				}
			})
		})
	}
}
