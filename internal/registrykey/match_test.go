package registrykey_test

import (
	"testing"

	"github.com/podwright/podwright/internal/registrykey"
)

// TestImageNamesAreCompleted: every reader of an image's name adds the same registry and folder to it.
func TestImageNamesAreCompleted(t *testing.T) {
	for image, want := range map[string][2]string{
		"app":                     {"docker.io/library/app", "docker.io/library/app"},
		"app:1":                   {"docker.io/library/app:1", "docker.io/library/app"},
		"app@sha256:0a":           {"docker.io/library/app@sha256:0a", "docker.io/library/app"},
		"joe/app:1":               {"docker.io/joe/app:1", "docker.io/joe/app"},
		"docker.io/app":           {"docker.io/library/app", "docker.io/library/app"},
		"index.docker.io/app:1":   {"docker.io/library/app:1", "docker.io/library/app"},
		"index.docker.io/joe/app": {"docker.io/joe/app", "docker.io/joe/app"},
		"localhost/app:1":         {"localhost/app:1", "localhost/app"},
		"localhost:5000/app:1":    {"localhost:5000/app:1", "localhost:5000/app"},
		"reg.io/a/b:1@sha256:0a":  {"reg.io/a/b:1@sha256:0a", "reg.io/a/b"},
		"Joe/app":                 {"Joe/app", "Joe/app"}, // a folder has no capitals, a host may
	} {
		if got := registrykey.Complete(image); got != want[0] {
			t.Errorf("%s: %s, want %s", image, got, want[0])
		}
		if got := registrykey.Repository(image); got != want[1] {
			t.Errorf("repository of %s: %s, want %s", image, got, want[1])
		}
	}
}
