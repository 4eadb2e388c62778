//go:build apiserver && containerd

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/kube/apitest"
)

// statics is a node with static pods, and pods of an API server, of different trust.
type statics struct {
	*cluster
	manifests, url string
}

// manifest is a pod that talks and runs on, privileged or not.
func (s *statics) manifest(name, node string, privileged bool) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: NAMESPACE, labels: {app: %s}}
spec:
  nodeName: %q
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  containers:
  - {name: app, image: %q, imagePullPolicy: IfNotPresent, command: [sh, -c, "echo I am %s; sleep 100000"], securityContext: {privileged: %v}}
`, name, name, node, s.runtime.Image, name, privileged)
}

// begin starts kubenode with these levels for the API server's pods.
func (s *statics) begin(level string) {
	s.start("--manifests="+s.manifests, "--manifest-url="+s.url, "--pod-security="+level)
}

// make makes a pod of the API server.
func (s *statics) make(namespace, name string, privileged bool) {
	s.t.Helper()
	s.apply(strings.ReplaceAll(s.manifest(name, nodeName, privileged), "NAMESPACE", namespace))
}

// get is a pod as the API server has it, empty if it has none.
func (s *statics) get(namespace, name string) *v1.Pod {
	pod, err := s.operator.CoreV1().Pods(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return &v1.Pod{}
	}
	return pod
}

// runs waits until a pod runs, and returns its container.
func (s *statics) runs(namespace, name string) (pod *v1.Pod, container string) {
	s.t.Helper()
	s.until(name+" runs", 30*time.Second, func() error {
		if pod = s.get(namespace, name); len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("phase %q %s", pod.Status.Phase, pod.Status.Message)
		}
		return nil
	})
	return pod, pod.Status.ContainerStatuses[0].ContainerID
}

// refused waits until a pod is refused, as an operator sees it.
func (s *statics) refused(namespace, name, message string) {
	s.t.Helper()
	s.until(name+" is refused", 20*time.Second, func() error {
		status := s.get(namespace, name).Status
		if status.Phase != v1.PodFailed || status.Reason != "PodSecurity" || !strings.Contains(status.Message, message) || len(status.ContainerStatuses) > 0 {
			return fmt.Errorf("%s %s: %s, containers %v", status.Phase, status.Reason, status.Message, status.ContainerStatuses)
		}
		if out := s.kubectl("get", "events", "-n", namespace, "--field-selector=reason=PodSecurity,involvedObject.name="+name, "-o", "jsonpath={.items[*].message}"); !strings.Contains(out, message) {
			return fmt.Errorf("events %q", out)
		}
		return nil
	})
}

// TestContainerdAPIServerStaticPods (KP4, KT9): static pods of a folder and of a URL start without an API
// server. They are seen through their mirror pods, and answer logs and exec; a deleted mirror pod comes back, and goes with
// its static pod. KP1-KP3, PS5: pods of each place keep to a level of their own. One of the API server that does not is
// Failed and has an event, but not in an exempt namespace; what ran before the level was raised goes on.
func TestContainerdAPIServerStaticPods(t *testing.T) {
	t.Parallel()
	s := &statics{cluster: newClusterWith(t, apitest.Options{}), manifests: t.TempDir()}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, strings.ReplaceAll(s.manifest("served", "", false), "NAMESPACE", "default"))
	}))
	t.Cleanup(served.Close)
	s.url = served.URL
	folder := filepath.Join(s.manifests, "web.yaml")
	if err := os.WriteFile(folder, []byte(strings.ReplaceAll(s.manifest("web", "", true), "NAMESPACE", "default")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.until("namespace kube-system", 10*time.Second, func() error {
		_, err := s.api.Kubectl(t.Context(), "create", "serviceaccount", "default", "-n", "kube-system")
		return err
	})

	if err := s.api.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	s.begin("privileged")
	s.until("both run without an API server", 30*time.Second, func() error {
		if n := len(s.runtime.Running()); n != 4 {
			return fmt.Errorf("%d sandboxes and containers", n)
		}
		return nil
	})
	if err := errors.Join(s.api.APIServer.Start(), s.api.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	web, container := s.runs("default", "web-"+nodeName)
	s.runs("default", "served-"+nodeName)
	if len(web.OwnerReferences) != 1 || web.OwnerReferences[0].Kind != "Node" || web.Annotations[v1.MirrorPodAnnotationKey] == "" {
		t.Errorf("the mirror pod has owners %v, annotations %v", web.OwnerReferences, web.Annotations)
	}
	for _, name := range []string{"web", "served"} {
		if out := s.kubectl("logs", name+"-"+nodeName); out != "I am "+name+"\n" {
			t.Errorf("logs: %q", out)
		}
		if out := s.kubectl("exec", name+"-"+nodeName, "--", "hostname"); strings.TrimSpace(out) != name+"-"+nodeName {
			t.Errorf("exec: %q", out)
		}
	}
	s.kubectl("delete", "pod", "web-"+nodeName, "--wait=false")
	s.until("the mirror pod is back", 30*time.Second, func() error {
		again := s.get("default", "web-"+nodeName)
		if again.UID == "" || again.UID == web.UID || again.DeletionTimestamp != nil || len(again.Status.ContainerStatuses) == 0 {
			return fmt.Errorf("UID %s, was %s", again.UID, web.UID)
		}
		if id := again.Status.ContainerStatuses[0].ContainerID; id != container {
			t.Fatalf("container %s, was %s", id, container)
		}
		return nil
	})

	s.make("default", "old", true)
	_, old := s.runs("default", "old")
	s.kill(syscall.SIGKILL)
	s.begin("baseline")
	s.make("default", "new", true)
	s.make("default", "modest", false)
	s.make("kube-system", "system", true)
	s.refused("default", "new", `violates PodSecurity "baseline": privileged (container "app" must not set securityContext.privileged=true)`)
	s.runs("default", "modest")
	s.runs("kube-system", "system")
	if _, id := s.runs("default", "old"); id != old {
		t.Errorf("what ran before was started again")
	}
	if _, id := s.runs("default", "web-"+nodeName); id != container {
		t.Errorf("the static pod was started again")
	}
	s.kubectl("patch", "pod", "old", "--subresource=ephemeralcontainers", "--type=strategic", "-p",
		fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":"more","image":%q,"command":["sleep","1000"],"securityContext":{"privileged":true}}]}}`, s.runtime.Image))
	s.until("the change is refused", 20*time.Second, func() error {
		out := s.kubectl("get", "events", "--field-selector=reason=ChangeRefused,involvedObject.name=old", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(out, "PodSecurity") {
			return fmt.Errorf("events %q", out)
		}
		return nil
	})
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	s.until("the static pod and its mirror pod are gone", 20*time.Second, func() error {
		if pod := s.get("default", "web-"+nodeName); pod.UID != "" {
			return fmt.Errorf("%s, deleted %v", pod.Status.Phase, pod.DeletionTimestamp)
		}
		return nil
	})
	if n := len(s.get("default", "old").Status.EphemeralContainerStatuses); n != 0 {
		t.Errorf("%d ephemeral containers beyond the level", n)
	}
}
