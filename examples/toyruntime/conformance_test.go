package toyruntime_test

import (
	"testing"
	"time"

	"github.com/podwright/podwright/examples/toyruntime"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// The toy keeps all promises that the engine relies on.
func TestConformance(t *testing.T) {
	runtimetest.Run(t, func(*testing.T) runtimetest.Subject {
		r := toyruntime.New()
		return runtimetest.Subject{
			Runtime: r, Images: r, Image: toyruntime.Image, Command: runtimetest.Shell("/bin/sh"),
			Limits:  runtimetest.Limits{NoPodIP: true, NoMounts: true, NoLogReopen: true},
			Timeout: patience.Of(time.Minute), LogWait: patience.Of(2 * time.Second),
		}
	})
}
