package pods_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// lines makes a log in the runtime's format.
func lines(from, to int, format string) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "2026-01-01T00:00:00.000000000Z stdout F "+format+"\n", i)
	}
	return b.String()
}

// spec/runtime.md 20: what of a log becomes the message: at most 80 lines and 2048
// bytes, also of lines that were split, and across a rotation; they are what logs show.
func TestMessageFromLog(t *testing.T) {
	for _, tc := range []struct {
		name         string
		log, rotated string
		want         func(string) bool
	}{
		{"80 lines", lines(0, 1000, "%d"), "", func(s string) bool { return strings.HasPrefix(s, "920\n") && strings.HasSuffix(s, "\n999\n") }},
		{"2048 bytes", lines(0, 1000, "%d "+strings.Repeat("x", 100)), "", func(s string) bool { return len(s) == 2048 && strings.HasSuffix(s, "x\n") }},
		{"not within a character", lines(0, 100, "%d "+strings.Repeat("é", 1001)), "", func(s string) bool {
			return utf8.ValidString(s) && len(s) >= 2046 && len(s) <= 2048
		}},
		{"an empty line", "t stdout F a\nt stdout F \nt stdout F b\n", "", func(s string) bool { return s == "a\n\nb\n" }},
		{"split lines and tags", "t stdout P:x he\nt stdout F:y llo\n", "", func(s string) bool { return s == "hello\n" }},
		{"what is no entry is left out", "garbage\nt stdout F a\n\nt stderr F b", "", func(s string) bool { return s == "a\nb\n" }},
		{"a line of 1 MiB", "t stdout P " + strings.Repeat("x", 1<<20) + "\nt stdout F end\n", "", func(s string) bool {
			return strings.HasSuffix(s, "end\n") && len(s) <= 2048
		}},
		{"parts of both streams", "t stdout P aaa\nt stderr F bbb\nt stdout F ccc\n", "", func(s string) bool { return s == "bbb\naaaccc\n" }},
		{"four words are no entry", "the server is gone\nt stdout F a\n", "", func(s string) bool { return s == "a\n" }},
		{"empty", "", "", func(s string) bool { return s == "" }},
		{"rotated when the agent was killed, and never reopened", "gone", lines(99, 100, "%d"), func(s string) bool { return s == "99\n" }},
		{"rotated right before the end", lines(99, 100, "%d"), lines(0, 99, "%d"), func(s string) bool { return strings.HasPrefix(s, "20\n21\n") && strings.HasSuffix(s, "\n99\n") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			log := filepath.Join(w.opts.LogDir, "default_web_uid-1/app/0.log")
			if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{log: tc.log, log + ".20260101-000000": tc.rotated} {
				if text == "" && path != log || text == "gone" {
					continue
				}
				text = strings.ReplaceAll(text, "t std", "2026-01-01T00:00:00Z std")
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := w.m.TerminationMessage(&runtime.ContainerStatus{
				State: runtime.Exited, ExitCode: 1, LogPath: log,
				Annotations: map[string]string{meta.AnnotationTerminationPolicy: string(v1.TerminationMessageFallbackToLogsOnError)},
			})
			if !tc.want(got) {
				t.Errorf("20: %d bytes: %.100q ... %q", len(got), got, got[max(0, len(got)-50):])
			}
		})
	}
}

// spec/runtime.md 20: of a file that is too long the end counts, from the beginning of a character; what is no text is
// left out.
func TestMessageFromFileIsText(t *testing.T) {
	w := newWorld(t, nil)
	path := filepath.Join(w.opts.RootDir, "pods/uid-1/containers/app/0")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"done":                          "done",
		"a\xffb\xc3":                    "ab",
		"x" + strings.Repeat("é", 3000): strings.Repeat("é", 2048),
		strings.Repeat("é", 3000) + "x": strings.Repeat("é", 2047) + "x",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := w.m.TerminationMessage(&runtime.ContainerStatus{
			State: runtime.Exited, Mounts: map[string]string{"/message": path},
			Annotations: map[string]string{meta.AnnotationTerminationMessagePath: "/message"},
		})
		if got != want {
			t.Errorf("20: %d bytes: %.60q, want %d bytes", len(got), got, len(want))
		}
	}
}

// spec/runtime.md 20: a runtime may name the file by what a link above the pods' folders stands for. The links of
// containers still lead nowhere.
func TestMessageBehindALinkedRoot(t *testing.T) {
	for _, linked := range []string{"the root", "the folder of the pods"} {
		real, root := t.TempDir(), filepath.Join(t.TempDir(), "link")
		link, podsDir := root, filepath.Join(real, "pods")
		if linked != "the root" {
			root, podsDir = filepath.Dir(root), real
			link = filepath.Join(root, "pods")
		}
		if err := os.Symlink(real, link); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, nil, func(o *pods.Options) { o.RootDir, o.LogDir = root, root+"/logs" })
		write := func(path, text string) {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(podsDir, "uid-1/containers/app/0"), "done")
		write(filepath.Join(real, "secret"), "secret")
		write(filepath.Join(filepath.Dir(real), "secret"), "secret")
		for name, to := range map[string]string{"link": "0", "out": "../../../secret", "further": "../../../../secret"} {
			if err := os.Symlink(to, filepath.Join(podsDir, "uid-1/containers/app", name)); err != nil {
				t.Fatal(err)
			}
		}
		const failed = "Error on reading termination message: "
		for path, want := range map[string]string{
			filepath.Join(podsDir, "uid-1/containers/app/0"):         "done",
			filepath.Join(root, "pods/uid-1/containers/app/0"):       "done",
			filepath.Join(podsDir, "uid-1/containers/app/link"):      failed,
			filepath.Join(podsDir, "uid-1/containers/app/out"):       failed,
			filepath.Join(podsDir, "uid-1/containers/app/further"):   failed,
			filepath.Join(podsDir, "../secret"):                      "",
			filepath.Join(root, "pods/uid-1/containers/app/further"): failed,
		} {
			got := w.m.TerminationMessage(&runtime.ContainerStatus{
				State: runtime.Exited, Mounts: map[string]string{"/message": path},
				Annotations: map[string]string{meta.AnnotationTerminationMessagePath: "/message"},
			})
			if !strings.HasPrefix(got, want) || want != failed && got != want {
				t.Errorf("20: %s is a link, %s: %q", linked, path, got)
			}
		}
	}
}

// spec/runtime.md 20: a file elsewhere is not read. A container that was made before the root folder was moved has none, and with the
// fallback its log counts.
func TestMessageOfAFolderThatWasMoved(t *testing.T) {
	w := newWorld(t, nil)
	former := filepath.Join(t.TempDir(), "pods/uid-1/containers/app/0")
	log := filepath.Join(w.opts.LogDir, "default_web_uid-1/app/0.log")
	for path, text := range map[string]string{former: "elsewhere", log: lines(7, 8, "%d")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for policy, want := range map[v1.TerminationMessagePolicy]string{
		v1.TerminationMessageReadFile: "", v1.TerminationMessageFallbackToLogsOnError: "7\n",
	} {
		got := w.m.TerminationMessage(&runtime.ContainerStatus{
			State: runtime.Exited, ExitCode: 1, LogPath: log, Mounts: map[string]string{"/message": former},
			Annotations: map[string]string{meta.AnnotationTerminationMessagePath: "/message", meta.AnnotationTerminationPolicy: string(policy)},
		})
		if got != want {
			t.Errorf("20: %s: %q, want %q", policy, got, want)
		}
	}
}

// spec/runtime.md 20: a message that cannot be read gives the error's text, and what a
// container puts in place of its file is neither followed nor waited for.
func TestMessageFileReplaced(t *testing.T) {
	w := newWorld(t, nil)
	podsDir := filepath.Join(w.opts.RootDir, "pods")
	dir := filepath.Join(podsDir, "uid-1/volumes/kubernetes.io~empty-dir/v")
	other := filepath.Join(podsDir, "uid-2/containers/app/0")
	for _, d := range []string{dir, filepath.Dir(other)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(other, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"link to another pod's file": func(path string) error { return os.Symlink("../../../../uid-2/containers/app/0", path) },
		"link to another folder":     func(path string) error { return os.Symlink("../../../../uid-2/containers/app", path) },
		"pipe":                       func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":                     func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		mount := path
		if name == "link to another folder" {
			mount = filepath.Join(path, "0")
		}
		got := w.m.TerminationMessage(&runtime.ContainerStatus{
			State: runtime.Exited, Mounts: map[string]string{"/message": mount},
			Annotations: map[string]string{meta.AnnotationTerminationMessagePath: "/message"},
		})
		if !strings.HasPrefix(got, "Error on reading termination message: ") || strings.Contains(got, "secret") {
			t.Errorf("20: %s: %q", name, got)
		}
	}
}
