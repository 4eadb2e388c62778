package source

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

// TestFolderWithTooManyFiles is SRC6: known pods come first, then files read before, then names.
func TestFolderWithTooManyFiles(t *testing.T) {
	f := newFolder(t, FileOptions{MaxFiles: 3})
	f.write("m.yaml", manifestOf("m", "x:1"))
	f.write("p.yaml", manifestOf("p", "x:1"))
	f.write("o.yaml", "{")
	diff(t, "as many as it takes", []string{"m-node-1 x:1", "p-node-1 x:1"}, f.scan())
	diff(t, "problems", 1, len(f.problems()))
	f.events.take()

	f.write("a.yaml", manifestOf("a", "x:1"))
	f.write("b.yaml", manifestOf("b", "x:1"))
	f.write("p.yaml", manifestOf("p", "x:2"))
	diff(t, "known pods stay and change", []string{"m-node-1 x:1", "p-node-1 x:2"}, f.scan())
	problems := f.file.Problems()
	if len(problems) != 2 || problems[0].Path != f.path || !errors.Is(problems[0].Err, ErrTooMany) ||
		!strings.Contains(problems[0].Err.Error(), "more than 3, so that a.yaml and perhaps others are not read; move files elsewhere or raise FileOptions.MaxFiles") {
		t.Errorf("problems %v", f.problems())
	}
	if e := f.events.take(); len(e) != 1 || !strings.Contains(e[0], "too many files") || !strings.Contains(e[0], "the pods that are known stay") {
		t.Errorf("events %q", e)
	}
	if listed := f.file.Unreadable(); len(listed) != 2 || !strings.Contains(listed[0].Advice, "raise the limit") {
		t.Errorf("listed %+v", listed)
	}
	if err := f.file.Undecided(); err == nil {
		t.Error("a file that was never read may define a pod that runs")
	}
	f.write("c.yaml", manifestOf("c", "x:1"))
	f.scan()
	if e := f.events.take(); len(e) != 0 {
		t.Errorf("one file more is no new problem: %q", e)
	}

	f.remove("o.yaml")
	diff(t, "room for the first by name", []string{"a-node-1 x:1", "m-node-1 x:1", "p-node-1 x:2"}, f.scan())
	f.remove("m.yaml")
	f.remove("b.yaml")
	diff(t, "and the next", []string{"a-node-1 x:1", "c-node-1 x:1", "p-node-1 x:2"}, f.scan())
	if err := errors.Join(f.file.Undecided(), problemsError(f)); err != nil {
		t.Error(err)
	}
}

func problemsError(f *folder) error {
	if p := f.problems(); len(p) > 0 {
		return fmt.Errorf("problems %q", p)
	}
	return nil
}

// TestTooManyPodsOfAServer is SRC6: the source refuses the list, and keeps the last one.
func TestTooManyPodsOfAServer(t *testing.T) {
	three := listJSON(podJSON("a"), podJSON("b"), podJSON("c"))
	got := poll(t, 3, HTTPOptions{MaxPods: 2}, ok(podJSON("web")), ok(three), ok(listJSON(podJSON("a"), podJSON("b"))))
	diff(t, "sets", [][]string{{"web-node-1 app:1"}, {"a-node-1 app:1", "b-node-1 app:1"}}, got.sets)
	if len(got.events) != 1 || !strings.Contains(got.events[0], "the list has 3, at most 2 are taken; serve fewer or raise HTTPOptions.MaxPods") {
		t.Errorf("events %q", got.events)
	}
	got = poll(t, 1, HTTPOptions{MaxPods: -1}, ok(three))
	diff(t, "no limit", 1, len(got.sets))
}

// TestTooManyPodsOfAProgram is SRC6: pods of the source stay and may change; others are refused.
func TestTooManyPodsOfAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newInProcess(t), t.Context()
		c.options.MaxPods = 2
		refused := func(what string, err error, names ...string) {
			t.Helper()
			var got []string
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				for _, err := range joined.Unwrap() {
					if pod := (*PodError)(nil); errors.As(err, &pod) && errors.Is(err, ErrTooMany) {
						got = append(got, pod.Name)
					}
				}
			}
			diff(t, what, names, got)
		}
		refused("which of them run already is not known", c.Set(ctx, []*v1.Pod{named("a", "x:1"), named("b", "x:1"), named("c", "x:1")}), "c")
		c.want(t, "nothing is delivered")
		must(t, c.Set(ctx, []*v1.Pod{named("y", "x:1"), named("z", "x:1")}))
		c.want(t, "as many as it takes", []string{"y x:1", "z x:1"})
		refused("Apply", c.Apply(ctx, []*v1.Pod{named("a", "x:1"), named("y", "x:2")}), "a")
		c.want(t, "known pods change", []string{"y x:2", "z x:1"})
		refused("Set", c.Set(ctx, []*v1.Pod{named("a", "x:1"), named("b", "x:1"), named("z", "x:2")}), "b")
		c.want(t, "known pods come first, then those given first", []string{"a x:1", "z x:2"})
	})
}
