package registrykey_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/registrykey"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Example shows who is asked first: the longest path, then the order of adding.
func Example() {
	var r registrykey.Ring[string]
	for _, entry := range []string{"reg.io=a", "https://reg.io/v2/team=b", "*.io=c", "reg.io=d"} {
		key, value, _ := strings.Cut(entry, "=")
		r.Add(registrykey.Normalize(key), value)
	}
	fmt.Println(r.Lookup(registrykey.Repository("reg.io/team/app:1")))
	fmt.Println(r.Lookup(registrykey.Repository("reg.org/app")))
	// Output:
	// [b a d c]
	// []
}

// spec/runtime.md 10.4: what is kept for the default registry is found by its images when nothing
// else matches.
func TestDefaultRegistryHasAKeyOfItsOwn(t *testing.T) {
	var r registrykey.Ring[string]
	r.Add(registrykey.Normalize("https://index.docker.io/v1/"), "hub")
	for image, want := range map[string]string{"app:1": "hub", "joe/app": "hub", "reg.io/app": ""} {
		if got := strings.Join(r.Lookup(registrykey.Repository(image)), " "); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
