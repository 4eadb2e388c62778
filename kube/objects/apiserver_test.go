//go:build apiserver

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/runtime/cri"
)

// KO1, KO4, KO6, KO7, KW4: on a real API server, as system:node. A node reads and watches what its pods
// refer to, and is refused the rest, which is not absence; changes arrive within 2 s.
func TestAPIServerStore(t *testing.T) {
	cluster := apitest.Start(t, apitest.Options{})
	admin, node := kubernetes.NewForConfigOrDie(cluster.Admin()), kubernetes.NewForConfigOrDie(cluster.Node("edge-1"))
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	namespace := v1.NamespaceDefault
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	_, err := admin.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}, metav1.CreateOptions{})
	check(err)
	for _, name := range []string{"mine", "other"} {
		_, err = admin.CoreV1().Secrets(namespace).Create(ctx, &v1.Secret{ObjectMeta: meta(name), Data: map[string][]byte{"key": []byte("1")}}, metav1.CreateOptions{})
		check(err)
	}
	_, err = admin.CoreV1().ConfigMaps(namespace).Create(ctx, &v1.ConfigMap{ObjectMeta: meta("fixed"), Immutable: ptr.To(true), Data: map[string]string{"key": "1"}}, metav1.CreateOptions{})
	check(err)
	pod := &v1.Pod{ObjectMeta: meta("web"), Spec: v1.PodSpec{
		NodeName:   "edge-1",
		Containers: []v1.Container{{Name: "app", Image: "example.com/app:1"}},
		Volumes: []v1.Volume{
			{Name: "mine", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "mine"}}},
			{Name: "none", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none"}}},
			{Name: "fixed", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "fixed"}}}},
		},
	}}
	pod, err = admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	check(err)

	store, err := objects.New(objects.Options{Client: node})
	check(err)
	told := make(chan objects.Object, 100)
	running, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- store.Run(running, func(o objects.Object) { told <- o }) }()
	defer func() {
		cancel()
		check(<-done)
	}()
	text := func(name string) string {
		s, err := store.GetSecret(ctx, namespace, name)
		switch {
		case cri.IsNotFound(err):
			return "absent"
		case err != nil:
			return "unknown"
		}
		return string(s.Data["key"])
	}
	store.Follow(pod)
	patience.Until(t, "the node may read its pod's secrets", func() bool { return text("mine") == "1" && text("none") == "absent" })
	if got := text("other"); got != "unknown" {
		t.Errorf("KO6: a secret of no pod of the node is %q", got)
	}
	var took []time.Duration
	for i := 2; i < 12; i++ {
		s := &v1.Secret{ObjectMeta: meta("mine"), Data: map[string][]byte{"key": []byte(fmt.Sprint(i))}}
		if i == 6 { // another life
			check(admin.CoreV1().Secrets(namespace).Delete(ctx, "mine", metav1.DeleteOptions{}))
			patience.Until(t, "the secret is gone", func() bool { return text("mine") == "absent" })
			_, err = admin.CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{})
		} else {
			_, err = admin.CoreV1().Secrets(namespace).Update(ctx, s, metav1.UpdateOptions{})
		}
		check(err)
		took = append(took, patience.Until(t, "the new content", func() bool { return text("mine") == fmt.Sprint(i) }))
	}
	patience.Until(t, "each change has been told (KO4)", func() bool { return len(told) >= 11 }) // what can be read is told right after
	if c, err := store.GetConfigMap(ctx, namespace, "fixed"); err != nil || c.Data["key"] != "1" {
		t.Errorf("KO3: %v, err %v", c, err)
	}
	t.Logf("new content after %v", took)
	for _, d := range took {
		if d > patience.Of(2*time.Second) {
			t.Errorf("KO4: new content came after %v", d)
		}
	}
	rewound(t, cluster, admin, node, pod)
}

// rewound: a watch of an API server whose store was restored from a backup says nothing and does not
// fail; the store notices by its silence and reads what there is (KO6).
func rewound(t *testing.T, cluster *apitest.Cluster, admin, node *kubernetes.Clientset, pod *v1.Pod) {
	clock := clocktesting.NewFakeClock(time.Now())
	store, err := objects.New(objects.Options{Client: node, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- store.Run(running, func(objects.Object) {}) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	set := func(word string) {
		t.Helper()
		s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "mine"}, Data: map[string][]byte{"key": []byte(word)}}
		if _, err := admin.CoreV1().Secrets(pod.Namespace).Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(word string) func() bool {
		return func() bool {
			clock.Step(100 * time.Millisecond) // what failed is tried again
			s, err := store.GetSecret(t.Context(), pod.Namespace, "mine")
			return err == nil && string(s.Data["key"]) == word
		}
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := errors.Join(cluster.Etcd.Kill(), cluster.Snapshot(t.Context(), backup)); err != nil {
		t.Fatal(err)
	}
	store.Follow(pod)
	for i := range 20 { // revisions that the backup lacks
		set(fmt.Sprint("lost", i))
	}
	patience.Until(t, "the content that will be lost", shows("lost19"))
	// Without grace, which would wait for the watches.
	if err := errors.Join(cluster.APIServer.Kill(), cluster.Rewind(t.Context(), backup)); err != nil {
		t.Fatal(err)
	}
	set("restored")
	began, silences := time.Now(), 0
	patience.Until(t, "the content after the backup", func() bool {
		if time.Since(began) > time.Duration(silences+1)*2*time.Second { // nothing has told it
			silences++
			clock.Step(10 * time.Minute)
		}
		return shows("restored")()
	})
	t.Logf("told after %d silences of 10 min", silences)
}
