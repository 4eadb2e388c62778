package expand_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/expand"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The reconciler has more cases (runtime/pods/internal/criconfig).
func TestText(t *testing.T) {
	known := map[string]string{"A": "1", "B": "$(A)"}
	for in, want := range map[string]string{
		"plain": "plain", "$(A)/$(B)": "1/$(A)", "$$(A)": "$(A)", "$(NONE)": "$(NONE)", "$(A": "$(A", "a$": "a$",
	} {
		if got, err := expand.Text(in, func(name string) (string, bool) { v, ok := known[name]; return v, ok }); err != nil || got != want {
			t.Errorf("%q became %q, %v, want %q", in, got, err, want)
		}
	}
	long := strings.Repeat("x", expand.MaxString())
	if _, err := expand.Text("$(A)$(A)", func(string) (string, bool) { return long, true }); err == nil {
		t.Error("no limit")
	}
}
