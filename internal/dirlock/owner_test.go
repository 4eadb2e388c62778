package dirlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/podwright/podwright/internal/dirlock"
)

// TestPodsKeepTheirOwner: spec/runtime.md 1.11. The pods of a root folder keep their owner under any name of the node, and an
// engine that is configured with another owner does not get the folder.
func TestPodsKeepTheirOwner(t *testing.T) {
	for name, test := range map[string]struct {
		note             string // of the engine before; "none": there was none
		empty            bool   // no pods are left
		configured, want string
		logs, refused    bool
	}{
		"the same name":              {note: "n2", want: "n2"},
		"another name":               {note: "n1", want: "n1", logs: true},
		"another name, without pods": {note: "n1", empty: true, want: "n2"},
		"the first start":            {note: "none", want: "n2"},
		"a lost note":                {note: "", want: "n2"},
		"a note of zeros":            {note: "\x00\x00", want: "n2"},
		"as configured":              {note: "n1", configured: "n1", want: "n1"},
		"configured otherwise":       {note: "n1", configured: "x", want: "x", refused: true},
		"otherwise, without pods":    {note: "n1", empty: true, configured: "x", want: "x"},
		"otherwise, without a note":  {note: "", configured: "x", want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if !test.empty {
				if err := os.MkdirAll(filepath.Join(root, "pods", "uid"), 0o750); err != nil {
					t.Fatal(err)
				}
			}
			if test.note != "none" {
				if err := os.WriteFile(filepath.Join(root, ".lock"), []byte(test.note), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var logged []string
			logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			owner := dirlock.OwnerOf(root, test.configured, "n2", logger)
			if owner != test.want || len(logged) > 0 != test.logs {
				t.Errorf("owner %q, want %q; logged %q", owner, test.want, logged)
			}
			for range 2 { // a refusal leaves the note as it is, and the folder to others
				lock, err := dirlock.AcquireRoot(root, owner)
				if test.refused {
					if !errors.Is(err, dirlock.ErrOtherOwner) || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), `"n1"`) {
						t.Errorf("%v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if noted, held := dirlock.Holder(root); noted != owner || !held {
					t.Errorf("held %t by %q", held, noted)
				}
				if err := lock.Release(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
