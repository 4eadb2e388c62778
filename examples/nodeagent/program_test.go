package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestProgramHasNoMethodsThatNothingCalls: the program is built without what keeps every exported method of every type,
// text/template above all, which costs 4 MB of memory: make build.
func TestProgramHasNoMethodsThatNothingCalls(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "grpcnotrace,netgo,osusergo", "-ldflags=-dumpdep", "-o", os.DevNull, ".")
	report, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, report[max(0, len(report)-1000):])
	}
	for line := range strings.Lines(string(report)) {
		if function, _, found := strings.Cut(line, " <ReflectMethod>"); found {
			t.Fatalf("%s calls methods by names that the linker cannot know", function)
		}
	}
}
