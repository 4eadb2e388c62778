//go:build apiserver && containerd

package main

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/kube/apitest"
)

var (
	offlinePods = flag.Int("offline.pods", 3, "pods of TestContainerdAPIServerOffline that read everything")
	offlineFor  = flag.Duration("offline.for", 0, "how long they run without an API server")
)

// given is what the pods of a site refer to, a job that ends, and a pod that is deleted while the site is cut off.
const given = referred + `
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    metadata: {labels: {app: once}}
    spec:
      restartPolicy: Never
      nodeName: NODE
      containers: [{name: work, image: IMAGE, command: [sh, -c, "echo ran >>/host/once"], volumeMounts: [{name: host, mountPath: /host}]}]
      volumes: [{name: host, hostPath: {path: HOST, type: Directory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: doomed, labels: {app: doomed}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: IMAGE, command: [sh, -c, "echo runs >>/host/doomed; sleep 100000"], volumeMounts: [{name: host, mountPath: /host}]}]
  volumes: [{name: host, hostPath: {path: HOST, type: Directory}}]
---
`

// reading is a pod that writes a line about all that it was given at each start, and the changes of a config map.
const reading = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: reading}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: prepare, image: IMAGE, command: [sh, -c, "echo prepared >/work/done; echo init >>/host/NAME-init"], volumeMounts: [{name: work, mountPath: /work}, {name: host, mountPath: /host}]}
  containers:
  - name: app
    image: IMAGE
    command:
    - sh
    - -c
    - |
      echo "$(cat /work/done) $COLOUR $WORD $(cat /settings/colour) $(cat /password/word) $BACKEND_SERVICE_PORT $(cat $T/namespace) $(cat $T/token)" >>/host/NAME
      while true; do cat $T/token >/host/NAME-token.new; mv /host/NAME-token.new /host/NAME-token; cat /settings/colour >/host/NAME-colour; sleep 1; done
    env:
    - {name: T, value: /var/run/secrets/kubernetes.io/serviceaccount}
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: password, key: word}}}
    volumeMounts: [{name: work, mountPath: /work}, {name: host, mountPath: /host}, {name: settings, mountPath: /settings}, {name: password, mountPath: /password}]
  volumes:
  - {name: work, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - {name: host, hostPath: {path: HOST, type: Directory}}
---
`

// site is a node behind a link that can be cut.
type site struct {
	*cluster
	link  *apitest.Proxy
	host  string
	names []string
	flags []string
}

// newSite starts kubenode with a sealed cache.
func newSite(t *testing.T) *site {
	s := &site{cluster: newClusterWith(t, apitest.Options{Controllers: true, Args: []string{"--enable-bootstrap-token-auth"}})}
	s.host = filepath.Join(s.runtime.Root, "host") // it is removed when no container writes to it any more
	var err error
	if s.link, err = apitest.NewProxy(s.api.Admin()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.link.Thaw(); s.link.Close() })
	key := filepath.Join(t.TempDir(), "keys")
	line := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	if err := errors.Join(os.Mkdir(s.host, 0o700), s.api.Kubeconfig(s.config, s.link.Config(s.api.Node(nodeName))), os.WriteFile(key, []byte(line), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.flags = []string{"--offline-cache", "--offline-cache-key-file=" + key}
	s.boot = "boot-1"
	s.start(s.flags...)
	s.until("Node Ready", 30*time.Second, s.nodeReady)
	return s
}

// on fills in a manifest.
func (s *site) on(manifest, name string) string {
	return strings.NewReplacer("HOST", s.host, "NODE", nodeName, "NAME", name).Replace(manifest)
}

// lines are those that a pod's containers have written.
func (s *site) lines(name string) []string {
	content, err := os.ReadFile(filepath.Join(s.host, name))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// started returns nil if each pod that reads, and its init container, has started n times.
func (s *site) started(n int) func() error {
	return func() error {
		for _, name := range s.names {
			if app, init := len(s.lines(name)), len(s.lines(name+"-init")); app != n || init != n {
				return fmt.Errorf("%s has started %d times, its init container %d times, want %d", name, app, init, n)
			}
		}
		return nil
	}
}

// whole checks that each start of each pod found the same, but for the token, which may be another one.
func (s *site) whole(want string) {
	s.t.Helper()
	for _, name := range s.names {
		for i, line := range s.lines(name) {
			if token, found := strings.CutPrefix(line, want); !found || strings.Count(token, ".") != 2 {
				s.t.Errorf("start %d of %s found %.60q, want %q and a token", i, name, line, want)
			}
		}
	}
}

// cutOff cuts the power and the link, and boots the machine with an expired certificate.
func (s *site) cutOff(bootstrap string) {
	s.t.Helper()
	s.link.Freeze()
	s.link.Cut()
	s.kill(syscall.SIGKILL)
	s.runtime.PowerCut()
	if err := s.api.Kubeconfig(s.config, s.link.Config(s.api.Expired("system:node:"+nodeName, "system:nodes"))); err != nil {
		s.t.Fatal(err)
	}
	s.boot = "boot-2"
	s.runtime.Restart()
	s.start(append(slices.Clone(s.flags), "--rotate-certificates", "--bootstrap-kubeconfig="+bootstrap)...)
}

// TestContainerdAPIServerOffline (KO8, KK10, KC3, CK5): the power of a site and its link go; after the boot its pods start without an API server, under a
// client certificate that has expired, with what they had, and a job that has ended does not run again. When the link is back the node bootstraps again: statuses are
// true, tokens are renewed, a changed config map arrives, a pod that was deleted stops, and no pod was made again.
func TestContainerdAPIServerOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apply(joinable)
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	s.bootstrapKubeconfig(bootstrap, s.link.Config(s.api.Admin()).Host)
	s.apply(s.on(given, ""))
	for i := range *offlinePods {
		s.names = append(s.names, fmt.Sprint("reading-", i))
		s.apply(s.on(reading, s.names[i]))
	}
	s.until("the pods run", 3*time.Minute, s.ready("app=reading", *offlinePods))
	s.until("each has written its line", 20*time.Second, s.started(1))
	s.until("the job has ended", 30*time.Second, func() error { return s.ended("app=once") })
	s.whole("prepared blue first blue first 8080 default ")
	before, tokens := s.uids("app=reading"), s.tokens()
	s.until("all is on disk", 10*time.Second, func() error { return s.kept(*offlinePods) })

	s.cutOff(bootstrap)
	s.until("the pods run after the boot, without an API server", 3*time.Minute, s.started(2))
	s.whole("prepared blue first blue first 8080 default ")
	s.until("the pod that will be deleted runs", 30*time.Second, func() error {
		if n := len(s.lines("doomed")); n != 2 {
			return fmt.Errorf("it has started %d times", n)
		}
		return nil
	})
	s.kubectl("patch", "configmap", "settings", "-p", `{"data":{"colour":"green"}}`)
	s.kubectl("delete", "pod", "doomed", "--wait=false")
	s.sleep(*offlineFor)

	s.link.Thaw()
	s.until("the Node is Ready again", 90*time.Second, s.nodeReady)
	s.until("the statuses are true", time.Minute, s.runOn)
	s.until("tokens are renewed and the config map has arrived", 90*time.Second, func() error { return s.renewed(tokens) })
	s.until("the deleted pod is gone", 30*time.Second, func() error {
		if _, err := s.operator.CoreV1().Pods("default").Get(t.Context(), "doomed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	if err := s.started(2)(); err != nil {
		t.Error(err)
	}
	if after := s.uids("app=reading"); after != before {
		t.Errorf("pods were made again: %s, were %s", after, before)
	}
	if got := s.lines("once"); len(got) != 1 || s.ended("app=once") != nil {
		t.Errorf("the job that had ended ran %d times: %v", len(got), s.ended("app=once"))
	}
}

// ended returns nil if the one pod with a label has succeeded.
func (s *site) ended(selector string) error {
	if pods := s.pods(selector); len(pods) != 1 || pods[0].Status.Phase != v1.PodSucceeded {
		return fmt.Errorf("%d pods, not one that has succeeded", len(pods))
	}
	return nil
}

func (s *site) uids(selector string) string {
	var out []string
	for _, pod := range s.pods(selector) {
		out = append(out, pod.Name+"="+string(pod.UID))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// tokens are those that the pods have now.
func (s *site) tokens() (out []string) {
	for _, name := range s.names {
		out = append(out, strings.Join(s.lines(name+"-token"), ""))
	}
	return out
}

// kept returns nil if the cache has a file for each of the pods' tokens, and for all that they share.
func (s *site) kept(pods int) error {
	dir := filepath.Join(s.root, "offline")
	files, err := filepath.Glob(filepath.Join(dir, "*.kept"))
	if err != nil || len(files) < pods+len([]string{"settings", "password", "kube-root-ca.crt", "services", "classes", "node"}) {
		return fmt.Errorf("%d files, %v", len(files), err)
	}
	for _, file := range append(files, dir) {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	return nil
}

// runOn returns nil if the API server shows each pod running since the boot, with one restart.
func (s *site) runOn() error {
	pods := s.pods("app=reading")
	if len(pods) != len(s.names) {
		return fmt.Errorf("%d pods", len(pods))
	}
	for _, pod := range pods {
		if len(pod.Status.ContainerStatuses) != 1 {
			return fmt.Errorf("%s has %d containers", pod.Name, len(pod.Status.ContainerStatuses))
		}
		if c := pod.Status.ContainerStatuses[0]; pod.Status.Phase != v1.PodRunning || c.State.Running == nil || c.RestartCount != 1 || !c.Ready {
			return fmt.Errorf("%s is %s, its container %+v with %d restarts", pod.Name, pod.Status.Phase, c.State, c.RestartCount)
		}
	}
	return nil
}

// renewed returns nil if each pod has another token than before, which the API server takes, and the new config map.
func (s *site) renewed(old []string) error {
	for i, token := range s.tokens() {
		if token == "" || token == old[i] {
			return fmt.Errorf("%s has the old token", s.names[i])
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		said, err := s.operator.AuthenticationV1().TokenReviews().Create(s.t.Context(), review, metav1.CreateOptions{})
		if err != nil || !said.Status.Authenticated {
			return fmt.Errorf("the token of %s: %v", s.names[i], err)
		}
		if colour := s.lines(s.names[i] + "-colour"); !slices.Equal(colour, []string{"green"}) {
			return fmt.Errorf("%s sees %q", s.names[i], colour)
		}
	}
	return nil
}
