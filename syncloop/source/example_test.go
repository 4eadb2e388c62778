package source_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// A folder of manifests becomes a set of pods; a bad manifest is reported and harms
// no other.
func ExampleFile() {
	folder, err := os.MkdirTemp("", "manifests")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for name, content := range map[string]string{
		"web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: \"web:1\"}]}\n",
		"bad.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}

	files, err := source.NewFile(folder, "node-1", source.FileOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = files.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
		for _, p := range pods {
			fmt.Println(p.Namespace, p.Name, p.Spec.RestartPolicy)
		}
		cancel() // one look is enough here
		return nil
	})
	for _, p := range files.Problems() {
		fmt.Println(filepath.Base(p.Path)+":", p.Err)
	}
	// Output:
	// default web-node-1 Always
	// bad.yaml: invalid pod: spec.containers: Required value: a pod has at least one container
}

// The program hands over its own pods. Set returns once the loop has accepted
// them.
func ExampleChannel() {
	pods := source.NewChannel(source.ChannelOptions{NodeName: "node-1"})
	loop, err := syncloop.New(func(w syncloop.Work) {
		fmt.Println(w.Kind, w.Pod.Name)
	}, syncloop.Options{Sources: []syncloop.Source{pods}})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- loop.Run(context.Background()) }()

	web := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web:1"}}}}
	web.Name = "web"
	if err := pods.Set(context.Background(), []*v1.Pod{web}); err != nil {
		fmt.Println(err)
	}
	web.Spec.Containers[0].Image = ""
	fmt.Println(pods.Set(context.Background(), []*v1.Pod{web}))
	if err := pods.Close(context.Background(), true); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-done)
	// Unordered output:
	// create web
	// pod default/web: spec.containers[0].image: Required value: must be set
	// kill web
	// <nil>
}

// A server tells the node what to run.
func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"web:1"}]}}`)
	}))
	defer server.Close()
	pods, err := source.NewHTTP(server.URL, "node-1", source.HTTPOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = pods.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
		for _, p := range pods {
			fmt.Println(p.Namespace, p.Name, p.Spec.RestartPolicy)
		}
		cancel()
		return nil
	})
	// Output:
	// default web-node-1 Always
}

// On a node without an API server, pods refer to config maps and secrets in a folder. An engine
// gets it as Config.Pods.Objects, and keeps it up to date.
func ExampleObjectDir() {
	folder, err := os.MkdirTemp("", "objects") // closed to others
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for name, content := range map[string]string{
		"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: fast}\n",
		"bad.yaml":      "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\ndata: {password: not base64}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	objects, err := source.NewObjectDir(folder, source.ObjectDirOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	settings, err := objects.GetConfigMap(context.Background(), "default", "settings")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(settings.Data["mode"])
	for _, p := range objects.Problems() {
		fmt.Println(filepath.Base(p.Path)+":", p.Err)
	}
	// Output:
	// fast
	// bad.yaml: document 1: not a config map or secret: it is not valid, a field has the wrong type, or data is not base64
}
