package enginetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

const manifestWithObjects = `apiVersion: v1
kind: Pod
metadata: {name: web, uid: uid-web}
spec:
  imagePullSecrets: [{name: pull}]
  containers:
  - name: main
    image: app:1
    env:
    - {name: MODE, valueFrom: {configMapKeyRef: {name: settings, key: mode}}}
    volumeMounts: [{name: v, mountPath: /v}]
  volumes:
  - {name: v, configMap: {name: settings}}
`

func settingsMap(mode string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: %s}\n---\n"+
		"apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{\"auths\":{}}'}\n", mode)
}

// TestManifestsReferToConfiguredObjects: D8, OB7. With Config.Pods.Objects a manifest may refer to
// config maps and secrets; without it, the manifest is refused, and the reason says what is missing.
// A change in the folder reaches the volume of a running pod, and a bad file is listed as a problem.
func TestManifestsReferToConfiguredObjects(t *testing.T) {
	for _, configured := range []bool{true, false} {
		t.Run(fmt.Sprintf("objects %v", configured), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manifests, objects, root := t.TempDir(), filepath.Join(t.TempDir(), "objects"), t.TempDir()
				write := func(path, text string) {
					t.Helper()
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Mkdir(objects, 0o700); err != nil {
					t.Fatal(err)
				}
				write(filepath.Join(manifests, "web.yaml"), manifestWithObjects)
				write(filepath.Join(objects, "all.yaml"), settingsMap("fast"))
				files, err := source.NewFile(manifests, "n1", source.FileOptions{PollOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				folder, err := source.NewObjectDir(objects, source.ObjectDirOptions{PollOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				rt := fake.New(fake.Options{})
				r := newRig(t, rt, root, func(c *podwright.Config) {
					c.Sources = []syncloop.Source{files}
					if configured {
						c.Pods.Objects = folder
					}
				}).start()
				if !configured {
					<-time.After(time.Minute)
					synctest.Wait()
					if p := r.problems(); r.pod("uid-web") != nil || p == nil || !strings.Contains(p.Error(), "no source of config maps and secrets is configured") {
						t.Errorf("%v", p)
					}
					return
				}
				r.phase("uid-web", v1.PodRunning, time.Minute)
				mode := func() string {
					found, err := filepath.Glob(filepath.Join(root, "pods", "uid-web", "volumes", "*", "v", "mode"))
					if err != nil || len(found) != 1 {
						t.Fatal(found, err)
					}
					text, err := os.ReadFile(found[0])
					if err != nil {
						t.Fatal(err)
					}
					return string(text)
				}
				if mode() != "fast" {
					t.Errorf("the volume has %q", mode())
				}
				write(filepath.Join(objects, "all.yaml"), settingsMap("slow"))
				r.within(21*time.Second, "the new content", func() error {
					if mode() != "slow" {
						return fmt.Errorf("the volume has %q", mode())
					}
					return nil
				})
				if n := rt.Facts("uid-web", "main").Started; n != 1 {
					t.Errorf("%d starts", n)
				}
				write(filepath.Join(objects, "all.yaml"), "data: {mode: hunter2")
				r.within(21*time.Second, "a problem", func() error {
					p := r.problems()
					if p == nil || !strings.Contains(p.Error(), "all.yaml") || strings.Contains(p.Error(), "hunter2") {
						return fmt.Errorf("problems: %v", p)
					}
					return nil
				})
				if err := r.engine.Healthy(); err != nil || mode() != "slow" {
					t.Errorf("%v, the volume has %q", err, mode())
				}
			})
		})
	}
}
