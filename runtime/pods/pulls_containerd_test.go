//go:build containerd

package pods_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// registrySecret has one credential for the registry of an image.
func registrySecret(name, image, password string) *v1.Secret {
	host, _, _ := strings.Cut(image, "/")
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Type:       v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"http://%s/v1/":{"username":"joe","password":%q}}}`, host, password),
		},
	}
}

// pulling is a pod that runs one image.
func pulling(name, image string, policy v1.PullPolicy, secrets ...string) *v1.Pod {
	return newPod(func(p *v1.Pod) {
		p.Name, p.UID = name, types.UID("uid-"+name)
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = image, policy
		p.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "sleep 1000"}
		for _, s := range secrets {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
		}
	})
}

// Pulls from a registry that wants a password, and from one that does not
// (spec/runtime.md 9, 10, edge case 18).
func TestContainerdPulls(t *testing.T) {
	closed := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Username: "joe", Password: "hunter2"}).Image
	open := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{}).Image
	objects, events := newShelf(), &events{}
	r := newReal(t, func(o *pods.Options) { o.Objects, o.Events = objects, events })
	for name, s := range map[string]*v1.Secret{
		"good": registrySecret("good", closed, "hunter2"), "copy": registrySecret("copy", closed, "hunter2"),
		"bad": registrySecret("bad", closed, "wrong-password"), "needless": registrySecret("needless", open, "hunter2"),
	} {
		objects.secrets[name] = s
	}
	missing := open[:strings.LastIndex(open, "/")] + "/none:1"
	for _, tc := range []struct {
		rule string
		pod  *v1.Pod
		want string // the waiting reason, empty if it runs
	}{
		{"9.9 private image, no secret", pulling("none", closed, v1.PullIfNotPresent), "ErrImagePull"},
		{"9.6 private image, wrong secret", pulling("wrong", closed, v1.PullIfNotPresent, "bad"), "ErrImagePull"},
		{"9.6 private image, right secret second", pulling("right", closed, v1.PullIfNotPresent, "bad", "good"), ""},
		{"edge case 18: pulled by another pod's secret", pulling("never", closed, v1.PullNever), "ErrImageNeverPull"},
		{"9.9 pulled by another pod's secret", pulling("other", closed, v1.PullIfNotPresent, "bad"), "ErrImagePull"},
		{"9.9 the same content", pulling("copy", closed, v1.PullNever, "copy"), ""},
		{"9 missing image", pulling("missing", missing, v1.PullIfNotPresent), "ErrImagePull"},
		// containerd shows a credential only to a registry that asks for one.
		{"9.6 public image, a secret that is not needed", pulling("needless", open, v1.PullIfNotPresent, "needless"), ""},
		{"9 public image", pulling("public", open, v1.PullIfNotPresent), ""},
		{"9.9 public image, again", pulling("again", open, v1.PullNever, "needless"), ""},
		{"9.9 preloaded image", pulling("preloaded", r.image, v1.PullNever), ""},
		{"9.2 bad name", pulling("name", "Not An Image", ""), "InvalidImageName"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			result := r.m.SyncPod(t.Context(), tc.pod, r.read(tc.pod))
			if len(starts(result)) != 1 || starts(result)[0].Reason != tc.want {
				t.Errorf("starts %+v, err %v; want %q", starts(result), result.Err, tc.want)
			}
			if tc.want == "" {
				r.until(tc.pod, "runs", func(s *runtime.PodStatus) bool {
					return s.Container("app") != nil && s.Container("app").State == runtime.Running
				})
			}
			for _, shown := range append(events.list(), fmt.Sprint(result.Err)) {
				if strings.Contains(shown, "hunter2") || strings.Contains(shown, "wrong-password") {
					t.Errorf("a password is shown: %s", shown)
				}
			}
		})
	}
	if err := r.m.PruneImageRecords(t.Context()); err != nil {
		t.Errorf("9.9: %v", err)
	}
}

// A pull that hangs in the registry ends at once with the last pod that wants it,
// and is reported as wanted meanwhile (spec/runtime.md 9.4).
func TestContainerdPullIsCancelled(t *testing.T) {
	asked, given := make(chan struct{}, 100), make(chan struct{}, 100)
	image := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Before: func(r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		given <- struct{}{}
	}}).Image
	r := newReal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan pods.Result, 2)
	var all []*v1.Pod
	for _, name := range []string{"one", "two"} {
		pod := pulling(name, image, v1.PullAlways)
		all = append(all, pod)
		status := r.read(pod)
		go func() { done <- r.m.SyncPod(ctx, pod, status) }()
	}
	<-asked
	for end := time.Now().Add(patience.Of(10 * time.Second)); len(r.m.Pulling("uid-one")) == 0 || r.m.Pulling("uid-one")[0].Waiters < 2; {
		if time.Now().After(end) {
			t.Fatalf("not shared: %v", r.m.Pulling("uid-one"))
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Log(r.m.Pulling("uid-two")[0])
	began := time.Now()
	cancel()
	for range 2 {
		if result := <-done; !errors.Is(result.Err, context.Canceled) || len(starts(result)) != 0 {
			t.Errorf("%+v", result)
		}
	}
	took := time.Since(began)
	<-given
	t.Logf("cancelled in %v", took)
	if took > patience.Of(time.Second) {
		t.Errorf("cancelled only after %v", took)
	}
	for _, pod := range all {
		if err := r.m.KillPod(t.Context(), pod, r.read(pod), nil); err != nil {
			t.Error(err)
		}
	}
}
