package objects_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
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

// Services and runtime classes are lists of the whole cluster: the program runs them beside its
// engine, which has them as Config.Pods.Services and Config.Pods.RuntimeClasses.
func ExampleServices() {
	api := fake.NewClientset(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}})
	known := make(chan objects.Object, 1)
	services, err := objects.NewServices(objects.ListOptions{Client: api, Changed: func(o objects.Object) { known <- o }})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, synced := services.Services("default")
	fmt.Println(synced) // nothing was read yet
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- services.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-known // an engine wakes the pods that wait
	list, synced := services.Services("default")
	fmt.Println(list[0].Name, synced)
	// Output:
	// false
	// kubernetes true
}

// A class that the cluster does not have is an error, and its pod waits.
func ExampleRuntimeClasses() {
	api := fake.NewClientset(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "kata"})
	known := make(chan objects.Object, 1)
	classes, err := objects.NewRuntimeClasses(objects.ListOptions{Client: api, Changed: func(o objects.Object) { known <- o }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- classes.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-known
	class, err := classes.RuntimeClass("sandboxed")
	fmt.Println(class.Handler, err)
	_, err = classes.RuntimeClass("other")
	fmt.Println(err)
	// Output:
	// kata <nil>
	// runtime class "other": not found
}
