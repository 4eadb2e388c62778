package podinfo

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPullPolicy(t *testing.T) { // spec/runtime.md 9.1
	for image, want := range map[string]v1.PullPolicy{
		"app":                         v1.PullAlways,
		"/srv/rootfs":                 v1.PullIfNotPresent,
		"app:latest":                  v1.PullAlways,
		"app:1":                       v1.PullIfNotPresent,
		"app@sha256:0":                v1.PullIfNotPresent,
		"app:latest@sha256:0":         v1.PullAlways,
		"app:1@sha256:0":              v1.PullIfNotPresent,
		"registry:5000/app":           v1.PullAlways,
		"registry:5000/app:1":         v1.PullIfNotPresent,
		"registry:5000/app@sha256:0":  v1.PullIfNotPresent,
		"registry:5000/a/b:latest":    v1.PullAlways,
		"registry:latest/app:1":       v1.PullIfNotPresent,
		"registry:latest/app@sha256:": v1.PullIfNotPresent,
	} {
		if got := PullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
