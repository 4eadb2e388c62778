package objects_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podwright/podwright/kube/objects"
)

// An agent gives the store to its engine, as Config.Pods.Objects, and tells it which pods there
// are. Here it is asked by hand.
func Example() {
	api := fake.NewClientset(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"colour": "blue"},
	})
	store, err := objects.New(objects.Options{Client: api})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
		Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "settings", VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}},
		}}}},
	}
	store.Follow(pod)
	defer store.Forget(pod.UID)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- store.Run(ctx, nil) }()
	defer func() { cancel(); <-done }()
	settings, err := store.GetConfigMap(ctx, "default", "settings")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(settings.Data["colour"])
	// Output: blue
}
