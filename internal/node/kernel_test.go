package node

import (
	"strings"
	"testing"
)

// TestKernelReleaseIsOneWord, as uname -r prints it.
func TestKernelReleaseIsOneWord(t *testing.T) {
	if r := KernelRelease(); r == "" || len(strings.Fields(r)) != 1 || strings.TrimSpace(r) != r {
		t.Errorf("release %q", r)
	}
}
