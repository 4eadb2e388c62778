package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manifestOf returns a small manifest.
func manifestOf(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: main\n    image: %s\n", name, image)
}

// valid returns a pod that passes Validate.
func valid(edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "app:1"}}},
	}
	for _, e := range edits {
		e(p)
	}
	return p
}

// events records events as "reason: message".
type events struct {
	mu    sync.Mutex
	lines []string
}

func (e *events) Eventf(_ apiruntime.Object, eventtype, reason, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, eventtype+" "+reason+": "+fmt.Sprintf(format, args...))
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := e.lines
	e.lines = nil
	return lines
}

// folder is a folder of manifests and a source for it.
type folder struct {
	t      *testing.T
	path   string
	file   *File
	events *events
}

func newFolder(t *testing.T, options FileOptions) *folder {
	t.Helper()
	f := &folder{t: t, path: t.TempDir(), events: &events{}}
	options.Recorder = f.events
	var err error
	if f.file, err = NewFile(f.path, "Node-1", options); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *folder) write(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.path, name), []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.path, name)); err != nil {
		f.t.Fatal(err)
	}
}

// scan returns the pods of a scan as "name image".
func (f *folder) scan() []string {
	f.t.Helper()
	set, _, err := f.file.scan(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	return describe(set)
}

func describe(set []*v1.Pod) []string {
	out := []string{}
	for _, p := range set {
		out = append(out, p.Name+" "+p.Spec.Containers[0].Image)
	}
	slices.Sort(out)
	return out
}

// problems returns the problems as "file: text", without the folder's path.
func (f *folder) problems() []string {
	out := []string{}
	for _, p := range f.file.Problems() {
		kept := ""
		if p.Pod != nil {
			kept = " [pod stays]"
		}
		out = append(out, strings.ReplaceAll(filepath.Base(p.Path)+": "+p.Err.Error(), f.path+"/", "")+kept)
	}
	return out
}
