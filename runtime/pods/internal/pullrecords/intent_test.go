package pullrecords_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/podwright/podwright/runtime/pods/internal/credentials"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
)

// spec/runtime.md 9.9: an intent that cannot be read may be about any image: none counts as preloaded until it can be read,
// or its image is pulled again. Other pulls and intents go on, and leave nothing behind.
func TestUnreadableIntentForcesPulls(t *testing.T) {
	const folder = "a folder, which is not readable as a file"
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1}`, `{"version":1,"image":"reg.io/b:1"}`, folder} {
		b := newBench(t, pullrecords.Policy{})
		a := from(t, "a", "1", "pw")
		b.begin() // the agent is killed
		files, err := filepath.Glob(filepath.Join(b.store.(pullrecords.FileStore).Dir, "pulling", "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		path := files[0]
		if text == folder {
			err = os.Rename(path, path+".kept")
			if err == nil {
				err = os.Mkdir(path, 0o700)
			}
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.restart(pullrecords.Policy{})
		if b.may() {
			t.Errorf("9.9: usable without a secret, with an intent %q", text)
		}

		left, err := b.l.Begin(t.Context(), "reg.io/c:1", "reg.io/c", []credentials.Credential{a})
		if err != nil {
			t.Fatalf("9.9: intent %q keeps another image from being pulled: %v", text, err)
		}
		left.End(pullrecords.Outcome{Unknown: true, By: &a})
		other := &images{ids: map[string]bool{"c": true}, named: map[string]string{"reg.io/c:1": "c"}}
		if err := b.l.Prune(t.Context(), other); err == nil {
			t.Errorf("9.9: intent %q is not reported", text)
		}
		if intents, err := b.store.Intents(); len(intents) != 0 || err == nil {
			t.Errorf("9.9: with an intent %q, those of other images are %q, %v", text, intents, err)
		}

		// One that is present is forced, too; if that fails for certain, it is what it was.
		present := &images{ids: map[string]bool{"p": true}, named: map[string]string{"reg.io/p:1": "p"}}
		forced, err := b.l.Begin(t.Context(), "reg.io/p:1", "reg.io/p", []credentials.Credential{a})
		if err != nil {
			t.Fatal(err)
		}
		forced.End(pullrecords.Outcome{})
		if err := b.l.Prune(t.Context(), present); err == nil {
			t.Errorf("9.9: intent %q is not reported", text)
		}

		if text == folder {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			b.begin().End(pullrecords.Outcome{})
			if b.intents() != 1 || b.may() {
				t.Errorf("9.9: an intent %q goes although its image was not pulled", text)
			}
		}
		b.pull(&a)
		if ok, err := b.l.MayUse(t.Context(), "reg.io/p:1", "reg.io/p", "p", nil, nil); !ok || err != nil {
			t.Errorf("9.9: after an intent %q of another image, a preloaded one is not usable: %v", text, err)
		}
		if b.intents() != 0 || b.may() || !b.may(a) {
			t.Errorf("9.9: intent %q is not replaced by the next pull", text)
		}
	}
}

// An intent that cannot be read is logged once, not at each start, and while no other pull waits for the logger.
func TestUnreadableIntentIsLoggedOnce(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	b.begin() // the agent is killed
	files, err := filepath.Glob(filepath.Join(b.store.(pullrecords.FileStore).Dir, "pulling", "*"))
	if err != nil || len(files) != 1 || os.WriteFile(files[0], nil, 0o600) != nil {
		t.Fatal(files, err)
	}
	lines := 0
	b.l = pullrecords.New(pullrecords.Policy{}, b.store, funcr.New(func(string, string) {
		lines++
		b.begin().End(pullrecords.Outcome{}) // would wait without end
	}, funcr.Options{}))
	damage := func() {
		if err := os.WriteFile(files[0], nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.may()
	damage()
	b.may()
	b.may()
	if lines != 1 {
		t.Errorf("logged %d times", lines)
	}
}
