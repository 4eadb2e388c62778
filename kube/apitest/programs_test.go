package apitest

import (
	"strings"
	"testing"
)

// TestProgramsAreNamed: the environment names a folder; without it the script of this
// repository is found from any folder in it, and from outside the error says what to do.
func TestProgramsAreNamed(t *testing.T) {
	t.Setenv(programsVariable, "/opt/kubernetes")
	if folder, err := findPrograms(t.Context()); err != nil || folder != "/opt/kubernetes" {
		t.Errorf("%q, %v", folder, err)
	}
	if _, err := findUp("kube/apitest/servers/build.sh"); err != nil {
		t.Error(err)
	}
	t.Setenv(programsVariable, "")
	t.Chdir(t.TempDir())
	if _, err := findPrograms(t.Context()); err == nil || !strings.Contains(err.Error(), programsVariable) {
		t.Errorf("error %v", err)
	}
}
