//go:build apiserver && containerd

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/kube/apitest"
)

// Who may pull, besides the accounts that a plugin vouches for. The token's audience is that of the
// plugin "accounts"; a node must be allowed to ask for it.
const privateObjects = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
imagePullSecrets: [{name: right}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: member, annotations: {example.com/team: blue}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: node-registry-tokens}
rules: [{apiGroups: [""], resources: [registry.test], verbs: [request-serviceaccounts-token-audience]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: node-registry-tokens}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: node-registry-tokens}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes}]
`

// plugins are two: one knows the node's password, which is in a file, the other passes the pod's
// token on.
const plugins = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: cloud
  matchImages: ["127.0.0.1:CLOUD"]
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: accounts
  matchImages: ["127.0.0.1:ACCOUNTS/busybox"]
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes:
    serviceAccountTokenAudience: registry.test
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.com/team]
`

const (
	cloudPlugin = `#!/bin/sh
password=$(cat "${0%/*}/password")
[ -n "$password" ] || { echo >&2 "the metadata service is away"; exit 1; }
echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Registry",
"auth":{"127.0.0.1:CLOUD":{"username":"node","password":"'"$password"'"}}}'
`
	accountsPlugin = `#!/bin/sh
request=$(cat)
token=${request#*'"serviceAccountToken":"'}
echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Registry",
"auth":{"127.0.0.1:ACCOUNTS":{"username":"token","password":"'"${token%%'"'*}"'"}}}'
`
)

// private are registries that want passwords: one that pull secrets open, one for the node, one of
// the cloud, and one that takes tokens of service accounts.
type private struct {
	*cluster
	secrets, node, cloud, accounts string // their images

	mu       sync.Mutex
	password string   // of the cloud's
	seen     []string // passwords and tokens that must not be shown
}

func newPrivate(t *testing.T) *private {
	p := &private{cluster: newClusterWith(t, apitest.Options{}), password: "cloud-password-1", seen: []string{"hunter2", "wrong-password", "node-password"}}
	serve := func(allow func(username, password string) bool) string {
		return containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Bearer: true, Allow: allow}).Image
	}
	p.secrets = containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Username: "joe", Password: "hunter2"}).Image
	p.node = containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Username: "node", Password: "node-password"}).Image
	p.cloud = serve(func(username, password string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return username == "node" && password == p.password
	})
	p.accounts = serve(p.isMember)
	return p
}

// isMember asks the API server who has a token, as a registry of a cloud would by its signature.
func (p *private) isMember(_, token string) bool {
	if token == "" {
		return false
	}
	p.mu.Lock()
	p.seen = append(p.seen, token)
	p.mu.Unlock()
	review, err := p.operator.AuthenticationV1().TokenReviews().Create(p.t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"registry.test"}},
	}, metav1.CreateOptions{})
	return err == nil && review.Status.Authenticated && review.Status.User.Username == "system:serviceaccount:default:member"
}

// install writes the plugins and their configuration, and returns their folder and kubenode's flags.
func (p *private) install() (dir string, flags []string) {
	p.t.Helper()
	dir = p.t.TempDir()
	port := func(image string) string {
		_, rest, _ := strings.Cut(image, ":")
		port, _, _ := strings.Cut(rest, "/")
		return port
	}
	ports := strings.NewReplacer("CLOUD", port(p.cloud), "ACCOUNTS", port(p.accounts))
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "plugins.yaml"), []byte(ports.Replace(plugins)), 0o600),
		os.WriteFile(filepath.Join(dir, "cloud"), []byte(ports.Replace(cloudPlugin)), 0o700),
		os.WriteFile(filepath.Join(dir, "accounts"), []byte(ports.Replace(accountsPlugin)), 0o700),
	); err != nil {
		p.t.Fatal(err)
	}
	p.tell(dir, "")
	return dir, []string{"--image-credential-provider-config=" + filepath.Join(dir, "plugins.yaml"), "--image-credential-provider-bin-dir=" + dir}
}

// tell gives the cloud's plugin its password.
func (p *private) tell(dir, password string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// runPod makes a pod of an image, which it pulls each time if always.
func (p *private) runPod(name, image, account, secret string, always bool) {
	p.t.Helper()
	no, grace := false, int64(0)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: nodeName, ServiceAccountName: account, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
		Containers: []v1.Container{{Name: "app", Image: image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sh", "-c", "sleep 100000"}}},
	}}
	if always {
		pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	}
	if secret != "" {
		pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: secret}}
	}
	if _, err := p.operator.CoreV1().Pods("default").Create(p.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// becomes waits until a pod runs, or until it waits for its image and an event says why.
func (p *private) becomes(name, reason, event string) {
	p.t.Helper()
	p.until(name, 20*time.Second, func() error {
		pod, err := p.operator.CoreV1().Pods("default").Get(p.t.Context(), name, metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return fmt.Errorf("no status, %w", err)
		}
		state := pod.Status.ContainerStatuses[0].State
		switch {
		case reason == "" && state.Running != nil:
			return nil
		case reason == "" || state.Waiting == nil || state.Waiting.Reason != "ErrImagePull" && state.Waiting.Reason != "ImagePullBackOff":
			return fmt.Errorf("state %+v, waiting %+v", state, state.Waiting)
		case !strings.Contains(state.Waiting.Message, reason):
			return fmt.Errorf("message %q", state.Waiting.Message)
		case event != "" && !strings.Contains(p.told(name), event):
			return fmt.Errorf("events %s", p.told(name))
		}
		return nil
	})
}

// told is what the events of a pod say, of all pods without a name.
func (p *private) told(name string) string {
	list, err := p.operator.CoreV1().Events("default").List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, e := range list.Items {
		if name == "" || e.InvolvedObject.Name == name {
			fmt.Fprintf(&out, "%s %s: %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	return out.String()
}

// TestContainerdAPIServerPrivateRegistries: pull secrets of pods and of their service accounts, the node's
// own file, a plugin with the node's password, which is rotated, and one that passes on the tokens of service accounts open
// private registries, and nothing else does. No event, status or log shows what opens them (KG3, KG4,
// KG6, KG7, KG9, runtime.md 9.9, 10).
func TestContainerdAPIServerPrivateRegistries(t *testing.T) {
	t.Parallel()
	p := newPrivate(t)
	p.apply(privateObjects)
	for name, password := range map[string]string{"right": "hunter2", "wrong": "wrong-password"} {
		host, _, _ := strings.Cut(p.secrets, "/")
		p.kubectl("create", "secret", "docker-registry", name, "--docker-server="+host, "--docker-username=joe", "--docker-password="+password)
	}
	host, _, _ := strings.Cut(p.node, "/")
	if err := errors.Join(os.Mkdir(p.root, 0o700), os.WriteFile(filepath.Join(p.root, "config.json"),
		fmt.Appendf(nil, `{"auths":{%q:{"username":"node","password":"node-password"}}}`, host), 0o600)); err != nil {
		t.Fatal(err)
	}
	dir, flags := p.install()
	p.start(append(flags, "--v=4")...)
	p.until("Ready", 30*time.Second, p.nodeReady)

	p.runPod("away", p.cloud, "", "", false)
	p.runPod("right", p.secrets, "", "right", false)
	p.runPod("member", p.accounts, "member", "", false)
	p.runPod("node", p.node, "", "", false)
	p.becomes("right", "", "")
	p.becomes("node", "", "")
	p.runPod("none", p.secrets, "", "", false) // the image is there, but not for this pod
	p.runPod("wrong", p.secrets, "", "wrong", false)
	p.runPod("account", p.secrets, "robot", "", true)
	p.runPod("stranger", p.accounts, "stranger", "", false)
	p.becomes("none", "failed to", "Failed")
	p.becomes("wrong", "failed to", "Failed")
	p.becomes("account", "", "")
	p.becomes("away", "failed to", `credential plugin "cloud": exit status 1; it said: the metadata service is away`)
	p.becomes("member", "", "")
	p.becomes("stranger", "failed to", `has no annotation "example.com/team"`)

	p.tell(dir, "cloud-password-1")
	p.becomes("away", "", "") // looked for again within 10 s
	p.mu.Lock()
	p.password, p.seen = "cloud-password-2", append(p.seen, "cloud-password-1", "cloud-password-2")
	p.mu.Unlock()
	p.runPod("before", p.cloud, "", "", true)
	p.becomes("before", "failed to", "Failed")
	p.tell(dir, "cloud-password-2")
	p.runPod("after", p.cloud, "", "", true)
	p.becomes("after", "", "")

	statuses := p.kubectl("get", "pods", "-o", "yaml")
	p.stop()
	p.cluster.mu.Lock()
	log := p.log.String()
	p.cluster.mu.Unlock()
	for what, text := range map[string]string{"events": p.told(""), "statuses": statuses, "log": log} {
		for _, secret := range p.seen {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in the %s:\n%s", what, text)
			}
		}
	}
	if len(p.seen) < 6 {
		t.Errorf("no token came: %d secrets", len(p.seen))
	}
}
