package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods"
)

// issuer makes tokens and certificates whose text tests change.
type issuer struct {
	mu   sync.Mutex
	text string
	err  error
}

func (i *issuer) set(text string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.text, i.err = text, err
}

func (i *issuer) get() (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.text, i.err
}

func (i *issuer) Token(_ context.Context, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
	text, err := i.get()
	return fmt.Sprintf("%s of %s for %s", text, pod.UID, s.Audience), err
}

func (i *issuer) TrustBundle(context.Context, *v1.Pod, *v1.ClusterTrustBundleProjection) ([]byte, error) {
	return []byte("anchors"), nil
}

func (i *issuer) PodCertificate(context.Context, *v1.Pod, *v1.PodCertificateProjection) (pods.PodCertificate, error) {
	text, err := i.get()
	return pods.PodCertificate{Key: []byte("key " + text + "\n"), Chain: []byte("chain " + text + "\n")}, err
}

func projected(sources ...v1.VolumeProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}
}

func tokenFor(audience string) v1.VolumeProjection {
	return v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: audience, Path: "token"}}
}

// spec/runtime.md 25.1, 25.2: projections are files on a memory file system, new ones replace
// them in one step, what cannot be made leaves the old ones, and nothing of them is told.
func TestProjectionsAreSecretFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &issuer{text: "hunter2"}
		var logs strings.Builder
		w, at := volumeWorld(t, func(o *pods.Options) {
			o.Projections = pods.Projections{Token: source, TrustBundle: source, PodCertificate: source}
			o.Logger = funcr.New(func(prefix, args string) { logs.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10})
		})
		source.set("", errors.New("the API server is away"))
		pod := newPod(mounting(projected(tokenFor("vault"),
			v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "ca"}},
			v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{CredentialBundlePath: "bundle"}},
		)))
		w.sync(pod)
		if reason := w.m.WaitingReasons(pod.UID)["app"]; !strings.Contains(reason.Message, "serviceAccountToken: the API server is away") {
			t.Errorf("25.2: waits for %+v", reason)
		}
		source.set("hunter2", nil)
		pass(600 * second)
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(at().GetHostPath(), name))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		if got, want := read("token")+"|"+read("ca")+"|"+read("bundle"), "hunter2 of uid-1 for vault|anchors|key hunter2\nchain hunter2\n"; got != want {
			t.Errorf("25.1: %q, want %q", got, want)
		}
		var fs syscall.Statfs_t
		const tmpfs = 0x01021994
		if err := syscall.Statfs(at().GetHostPath(), &fs); os.Geteuid() == 0 && (err != nil || fs.Type != tmpfs) {
			t.Errorf("25.2: the token is on file system %#x, err %v", fs.Type, err)
		}
		source.set("", errors.New("down"))
		w.sync(pod)
		if got := read("token"); got != "hunter2 of uid-1 for vault" {
			t.Errorf("25.2: after an error %q", got)
		}
		source.set("hunter3", nil)
		w.sync(pod)
		if got := read("token"); got != "hunter3 of uid-1 for vault" {
			t.Errorf("25.2: a new token did not come: %q", got)
		}
		for _, told := range append(w.events.list(), logs.String()) {
			if strings.Contains(told, "hunter") {
				t.Errorf("25.2: told %q", told)
			}
		}
	})
}

// TestOldContentIsLoggedOnce: spec/runtime.md 25.2: that a volume keeps its old content is logged when it begins and when the
// reason changes, not at each step of its pod.
func TestOldContentIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, lines := &issuer{text: "hunter2"}, 0
		w, _ := volumeWorld(t, func(o *pods.Options) {
			o.Projections = pods.Projections{Token: source}
			o.Logger = funcr.New(func(_, args string) {
				if strings.Contains(args, "keeps its old content") {
					lines++
				}
			}, funcr.Options{})
		})
		pod := newPod(mounting(projected(tokenFor("vault"))))
		w.syncAll(pod)
		for _, step := range []struct {
			failure string
			want    int
		}{
			{"refused", 1}, {"refused", 0}, {"read tcp 10.0.0.1:40000", 1}, {"read tcp 10.0.0.1:40001", 0}, {"", 0}, {"refused", 1},
		} {
			lines = 0
			if source.set("hunter2", nil); step.failure != "" {
				source.set("", errors.New(step.failure))
			}
			w.sync(pod)
			if lines != step.want {
				t.Errorf("25.2: %q: %d lines, want %d", step.failure, lines, step.want)
			}
		}
		w.m.Forget(pod.UID)
		lines = 0
		w.sync(pod)
		if lines != 1 {
			t.Errorf("25.2: of the next life %d lines", lines)
		}
	})
}

// spec/runtime.md 25.3: the user that all containers run as owns the token.
func TestTokenIsTheUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other users need root")
	}
	for _, tc := range []struct {
		group *int64
		want  string
	}{
		{nil, "1000:0 -rw-------"},
		{ptr.To[int64](77), "1000:77 -rw-r-----"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, at := volumeWorld(t, func(o *pods.Options) { o.Projections.Token = &issuer{text: "x"} })
			pod := newPod(mounting(projected(tokenFor(""))))
			pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), FSGroup: tc.group}
			w.syncAll(pod)
			info, err := os.Stat(filepath.Join(at().GetHostPath(), "token"))
			if err != nil {
				t.Fatal(err)
			}
			stat := info.Sys().(*syscall.Stat_t)
			if got := fmt.Sprintf("%d:%d %v", stat.Uid, stat.Gid, info.Mode()); got != tc.want {
				t.Errorf("25.3: %s, want %s", got, tc.want)
			}
		})
	}
}
