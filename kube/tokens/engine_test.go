package tokens_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// KK2, KK6: the file of a running pod has a new token about a minute after the old one was due; an outage
// leaves it as it is, and so does an agent that starts again during one.
func TestFilesHaveGoodTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, rt, root := newIssuer(), fake.New(fake.Options{}), t.TempDir()
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web-1"},
			Spec: v1.PodSpec{
				ServiceAccountName: "robot",
				Volumes: []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
					Sources: []v1.VolumeProjection{{ServiceAccountToken: projection("", 3600)}},
				}}}},
				Containers: []v1.Container{{Name: "app", Image: "example.com/app:1", VolumeMounts: []v1.VolumeMount{{Name: "token", MountPath: "/token"}}}},
			},
		}
		start := func() (stop func()) {
			pods := source.NewChannel(source.ChannelOptions{Name: "api", NodeName: "n1"})
			config := podwright.Config{Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "n1"}}
			config.Pods.Projections.Token, config.Checkpoints.Reserve = newSource(t, i), -1
			engine, err := podwright.New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- engine.Run(ctx) }()
			if err := pods.Set(t.Context(), []*v1.Pod{pod.DeepCopy()}); err != nil {
				t.Fatal(err)
			}
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		path := filepath.Join(root, "pods/web-1/volumes/kubernetes.io~projected/token/token")
		want := func(rule, token string) {
			t.Helper()
			synctest.Wait()
			if got, err := os.ReadFile(path); err != nil || string(got) != token {
				t.Errorf("%s: %q, err %v, want %q", rule, got, err, token)
			}
		}
		stop := start()
		pass(10 * time.Second)
		want("KK2", "secret1")
		pass(47 * time.Minute)
		want("KK2", "secret1")
		pass(3 * time.Minute)
		want("KK2", "secret2")
		i.set(errors.New("connection refused"))
		stop()
		stop = start()
		pass(20 * time.Minute)
		want("KK2", "secret2")
		i.set(nil)
		pass(2 * time.Minute)
		if got, err := os.ReadFile(path); err != nil || string(got) == "secret2" {
			t.Errorf("KK2: after an outage %q, err %v", got, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o644 {
			t.Errorf("KK6: %v, err %v", info, err)
		}
		// The end of the pod takes the file with it.
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		stop()
		defer start()()
		pass(10 * time.Minute)
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("KK5: the token outlives its pod: %v", err)
		}
	})
}
