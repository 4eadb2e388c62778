//go:build apiserver && containerd

package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/kube/apitest"
)

// canaries are values that are nowhere else, by what they are. Those of a pod's spec may be where
// its spec is, the others where secrets may be.
type canaries struct {
	spec, secret map[string]string
}

// fill puts a canary where a text says SPEC:NAME: or SECRET:NAME:.
func (c *canaries) fill(text string) string {
	for _, class := range []struct {
		mark string
		of   map[string]string
	}{{"SPEC:", c.spec}, {"SECRET:", c.secret}} {
		for {
			before, rest, found := strings.Cut(text, class.mark)
			if !found {
				break
			}
			name, after, _ := strings.Cut(rest, ":")
			text = before + c.add(class.of, name) + after
		}
	}
	return text
}

func (c *canaries) add(of map[string]string, name string) string {
	if of[name] == "" {
		of[name] = fmt.Sprintf("cnry-%02d-%s", len(c.spec)+len(c.secret), base64.RawURLEncoding.EncodeToString([]byte(name)))
	}
	return of[name]
}

const canaryObjects = `
apiVersion: v1
kind: Secret
metadata: {name: words, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"env":"SECRET:secret-annotation:"}}'}}
stringData: {env: "SECRET:secret-env:", path: "../SECRET:secret-path:", file: "SECRET:secret-file:", projected: "SECRET:secret-projected:", hidden: "SECRET:secret-unused:", "1from.env": "SECRET:secret-env-from:"}
---
apiVersion: v1
kind: Secret
metadata: {name: late}
stringData: {word: "SECRET:secret-late:"}
immutable: true
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-root-ca.crt}
data: {ca.crt: none}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {env: "SPEC:config-env:", file: "SPEC:config-file:"}
binaryData: {blob: "SPEC64"}
---
apiVersion: v1
kind: Secret
metadata: {name: pull}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"REGISTRY":{"username":"SECRET:pull-user:","password":"SECRET:pull-password:"}}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: pull-auth}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"REGISTRY":{"auth":"SECRET:pull-auth:"}}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: pull-broken}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"REGISTRY":{"username":7,"password":["SECRET:pull-broken:"]}}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: pull-old}
type: kubernetes.io/dockercfg
stringData: {.dockercfg: '{"REGISTRY":{"username":"joe","password":"SECRET:pull-old:","email":"SECRET:pull-email:"}}'}
`

// canaryPod is a pod with canaries wherever a pod can have them; PART is what makes each differ.
const canaryPod = `
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  labels: {app: NAME}
  annotations: {example.com/password: "SPEC:NAME-annotation:"}
spec:
  nodeName: edge-1
  serviceAccountName: default
  terminationGracePeriodSeconds: 1
PART
`

var canaryPods = map[string]string{
	"well": `
  containers:
  - name: app
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "cat >/dev/null; trap 'exit 0' TERM; sleep 100000 & wait", "SPEC:command:"]
    stdin: true
    env:
    - {name: PLAIN, value: "SPEC:env-plain:"}
    - {name: WORD, valueFrom: {secretKeyRef: {name: words, key: env}}}
    - {name: SETTING, valueFrom: {configMapKeyRef: {name: settings, key: env}}}
    envFrom: [{secretRef: {name: words}}, {configMapRef: {name: settings}}]
    volumeMounts: [{name: words, mountPath: /words}, {name: all, mountPath: /all}]
  volumes:
  - {name: words, secret: {secretName: words}}
  - name: all
    projected: {sources: [{secret: {name: words}}, {configMap: {name: settings}}, {serviceAccountToken: {path: token, audience: elsewhere}}]}
`,
	"probed": `
  containers:
  - name: http
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    livenessProbe: {httpGet: {port: 9, path: "/?key=SPEC:probe-query:", httpHeaders: [{name: Authorization, value: "Bearer SPEC:probe-header:"}]}, periodSeconds: 1}
  - name: exec
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    livenessProbe: {exec: {command: [sh, -c, "exit 3", "SPEC:probe-argument:"]}, periodSeconds: 1}
    readinessProbe: {exec: {command: [/none, "SPEC:probe-missing:"]}, periodSeconds: 1}
`,
	"hooked": `
  containers:
  - name: exec
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    lifecycle:
      postStart: {exec: {command: [sh, -c, "exit 3", "SPEC:start-argument:"]}}
      preStop: {exec: {command: [/none, "SPEC:stop-argument:"]}}
  - name: http
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    lifecycle:
      postStart: {httpGet: {port: 9, path: "/?key=SPEC:start-query:", httpHeaders: [{name: Authorization, value: "Bearer SPEC:start-header:"}]}}
`,
	"path": `
  containers:
  - name: app
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    env: [{name: WORD, valueFrom: {secretKeyRef: {name: words, key: path}}}]
    volumeMounts: [{name: work, mountPath: /work, subPathExpr: "$(WORD)"}]
  volumes: [{name: work, emptyDir: {}}]
`,
	"file": `
  containers:
  - name: app
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    env: [{name: WORD, valueFrom: {secretKeyRef: {name: words, key: env}}}]
    volumeMounts: [{name: words, mountPath: /work, subPathExpr: "env/$(WORD)"}]
  volumes: [{name: words, secret: {secretName: words}}]
`,
	"lacking": `
  containers:
  - name: app
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    env: [{name: WORD, valueFrom: {secretKeyRef: {name: words, key: none}}}, {name: PLAIN, value: "SPEC:env-lacking:"}]
`,
	"badmount": `
  containers:
  - name: app
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    volumeMounts: [{name: words, mountPath: /words}]
  volumes: [{name: words, secret: {secretName: words, items: [{key: none, path: none}]}}]
`,
	"missing": `
  containers:
  - {name: app, image: IMAGE, imagePullPolicy: IfNotPresent, command: [/no/such/program, "SPEC:missing-argument:"], env: [{name: PLAIN, value: "SPEC:missing-env:"}]}
`,
	"late": `
  containers:
  - {name: app, image: IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, "100000"], env: [{name: WORD, valueFrom: {secretKeyRef: {name: late, key: word}}}], volumeMounts: [{name: late, mountPath: /late}]}
  volumes: [{name: late, secret: {secretName: late}}]
`,
	"pulling": `
  imagePullSecrets: [{name: pull}, {name: pull-auth}, {name: pull-broken}, {name: pull-old}]
  containers: [{name: app, image: REGISTRY/busybox:pull, imagePullPolicy: Always, command: [sleep, "100000"]}]
`,
}

const canaryPlugins = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: good, matchImages: ["REGISTRY"], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1, env: [{name: KEY, value: "SECRET:plugin-env:"}]}
- {name: bad, matchImages: ["REGISTRY"], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1, env: [{name: KEY, value: "SECRET:plugin-bad-env:"}]}
`

const (
	goodPlugin = `#!/bin/sh
echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Registry","auth":{"REGISTRY":{"username":"node","password":"SECRET:plugin-password:"}}}'
`
	badPlugin = `#!/bin/sh
echo '{"auth":{"REGISTRY":{"username":"node","password":"SECRET:plugin-bad-password:"}'
echo "the key $KEY is wrong" >&2
exit 3
`
)

// planted is a node with canaries.
type planted struct {
	*cluster
	canaries
	api      *echoing
	registry string
	audit    string
	flags    []string
}

func (p *planted) write(path, content string, mode os.FileMode) string {
	p.t.Helper()
	if err := os.WriteFile(path, []byte(p.fill(strings.ReplaceAll(content, "REGISTRY", p.registry))), mode); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// plant starts the cluster, its registry and its proxy, and writes the node's own secrets.
func plant(t *testing.T) *planted {
	p := &planted{canaries: canaries{spec: map[string]string{}, secret: map[string]string{}}}
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	p.flags, p.audit = []string{"--v=4"}, filepath.Join(dir, "audit.log")
	accounts := filepath.Join(dir, "accounts.csv")
	if err := errors.Join(os.WriteFile(policy, []byte(auditPolicy), 0o600),
		os.WriteFile(accounts, []byte(p.fill("SECRET:node-token:,system:node:edge-1,1,system:nodes\nSECRET:reader-token:,reader,2,system:masters\n"+
			"SECRET:server-token:,kube-apiserver-kubelet-client,3\nSECRET:scraper-token:,scraper,4\nSECRET:passer-token:,passer,5\n")), 0o600)); err != nil {
		t.Fatal(err)
	}
	p.cluster = newClusterWith(t, apitest.Options{Args: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + p.audit, "--token-auth-file=" + accounts}})
	p.api = newEchoing(t, p.cluster)
	p.registry, _, _ = strings.Cut(containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Bearer: true, Username: "nobody", Password: "nothing"}).Image, "/")
	p.write(p.config, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"users":[{"name":"u","user":{"token":"SECRET:node-token:"}}],"clusters":[{"name":"c","cluster":{"server":"`+p.api.server.URL+`","certificate-authority-data":"`+base64.StdEncoding.EncodeToString(p.cluster.api.CA())+`"}}]}`, 0o600)
	if err := os.Mkdir(p.root, 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.root, "config.json"), `{"auths":{"REGISTRY":{"username":"node","password":"SECRET:node-password:"}}}`, 0o600)
	p.write(filepath.Join(dir, "good"), goodPlugin, 0o700)
	p.write(filepath.Join(dir, "bad"), badPlugin, 0o700)
	manifests := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, r.Header)
	}))
	t.Cleanup(manifests.Close)
	p.flags = append(p.flags, "--image-credential-provider-bin-dir="+dir,
		"--offline-cache", "--offline-cache-key-file="+p.write(filepath.Join(dir, "keys"), base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")), 0o600),
		"--image-credential-provider-config="+p.write(filepath.Join(dir, "plugins.yaml"), canaryPlugins, 0o600),
		"--manifest-url="+p.fill(strings.Replace(manifests.URL, "//", "//joe:SECRET:url-password:@", 1)+"/pods?key=SECRET:url-query:"))
	return p
}

// make makes a pod of canaryPods.
func (p *planted) make(names ...string) {
	p.t.Helper()
	var all strings.Builder
	for _, name := range names {
		text := strings.ReplaceAll(strings.Replace(canaryPod, "PART", canaryPods[name], 1), "NAME", name)
		all.WriteString("---\n" + p.fill(strings.ReplaceAll(text, "REGISTRY", p.registry)))
	}
	p.apply(all.String())
}

// told is what the events of all pods say.
func (p *planted) events() string {
	list, err := p.operator.CoreV1().Events("").List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	text, _ := json.Marshal(list.Items)
	return string(text)
}

// shown waits until the events of a pod have a text.
func (p *planted) shown(pod, text string) {
	p.t.Helper()
	p.until(pod+" says "+text, 20*time.Second, func() error {
		list, err := p.operator.CoreV1().Events("default").List(p.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			if all = append(all, e.Reason+": "+e.Message); strings.Contains(all[len(all)-1], text) {
				return nil
			}
		}
		return errors.New(strings.Join(all, "\n"))
	})
}

// ask asks the node's server itself, with a token.
func (p *planted) ask(path, token string) (int, string) {
	p.t.Helper()
	node, err := p.operator.CoreV1().Nodes().Get(p.t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", node.Status.DaemonEndpoints.KubeletEndpoint.Port, path), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestContainerdAPIServerCanaries (KZ1-KZ3): secrets of pods, of their images, of the node and of its clients
// are in no log, event, status, metric or page of the node's server, whatever fails and
// however indiscreet the failure is; in files only where they may be.
func TestContainerdAPIServerCanaries(t *testing.T) {
	t.Parallel()
	p := plant(t)
	p.start(p.flags...)
	p.until("Node Ready", 20*time.Second, p.nodeReady)
	p.apply(p.fill(strings.ReplaceAll(strings.ReplaceAll(canaryObjects, "REGISTRY", p.registry), "SPEC64", base64.StdEncoding.EncodeToString([]byte("blob")))))
	p.kubectl("apply", "-f", "rbac.yaml")
	p.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=kubenode-metrics-reader", "--user=scraper")
	p.make("well", "probed")
	p.until("well runs", 20*time.Second, p.ready("app=well", 1))

	p.api.fail(true)
	p.make(slices.DeleteFunc(slices.Sorted(maps.Keys(canaryPods)), func(name string) bool { return name == "well" || name == "probed" })...)
	bad := p.fill("SECRET:stranger-token:")
	failing := map[string]string{}
	for range failures {
		for _, token := range []string{bad, p.secret["reader-token"]} {
			code, body := p.ask(p.fill("/exec/default/well/app?command=SPEC:exec-query:"), token)
			failing[fmt.Sprint(len(failing))] = body
			if code == http.StatusOK {
				t.Errorf("let in: %d %s", code, body)
			}
		}
	}
	p.sleep(4 * time.Second)
	p.api.fail(false)

	p.until("late runs", 40*time.Second, p.ready("app=late", 1))
	if _, err := p.cluster.api.Kubectl(t.Context(), "exec", "well", "--", "sh", "-c", "exit 4", p.fill("SPEC:exec-argument:")); err == nil {
		t.Error("exec with an exit code succeeds")
	}
	if out := p.typed("exec", "-i", "well", "--", "wc", "-c"); out == "0\n" {
		t.Error("no stdin came")
	}
	p.shown("probed", "Unhealthy")
	p.shown("hooked", "FailedPostStartHook")
	p.shown("lacking", "none")
	p.shown("badmount", "none")
	p.shown("missing", "Failed")
	p.shown("path", "Failed")
	p.shown("file", "Failed")
	p.shown("pulling", "Failed")
	pages := map[string]string{}
	for _, path := range []string{"/healthz", "/configz", "/metrics", "/metrics/probes", "/metrics/resource", "/metrics/cadvisor", "/stats/summary", "/stats/summary?only_cpu_and_memory=true", "/pods"} {
		p.until(path+" answers", 30*time.Second, func() error { // 503 while the runtime is slow to measure
			code, body := p.ask(path, p.secret["reader-token"])
			pages[path] += body // answers that fail keep secrets, too
			t.Logf("%s: %d, %d bytes", path, code, len(body))
			if path != "/healthz" && (code != http.StatusOK || len(body) < 500) {
				return fmt.Errorf("%d %s", code, body)
			}
			return nil
		})
	}
	p.admits()
	statuses := p.statuses()
	p.stop()
	p.cluster.mu.Lock()
	log := p.log.String()
	p.cluster.mu.Unlock()

	for _, kind := range failures {
		if p.api.failed[kind] < 3 {
			t.Errorf("%d failures of the kind %q", p.api.failed[kind], kind)
		}
	}
	for i, token := range p.api.tokens {
		p.secret[fmt.Sprint("token-", i)] = token[strings.LastIndexByte(token, '.')+1:] // the signature: the rest names the pod
	}
	if len(p.secret)+len(p.spec) < 50 {
		t.Errorf("%d canaries", len(p.secret)+len(p.spec))
	}
	t.Logf("%d secrets, %d parts of specs, %d bytes of log, failures %v", len(p.secret), len(p.spec), len(log), p.api.failed)
	p.lacks("log", log, p.secret, p.spec)
	p.lacks("events", p.events(), p.secret, p.spec)
	p.lacks("statuses", statuses, p.secret, p.spec)
	for path, body := range pages {
		if path == "/pods" {
			p.lacks(path, body, p.secret)
		} else {
			p.lacks(path, body, p.secret, p.spec)
		}
	}
	for _, body := range failing {
		p.lacks("answer to a client", body, p.secret)
	}
	p.files()
	p.rights()
}

// typed runs kubectl with a canary on stdin.
func (p *planted) typed(args ...string) string {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "admin")
	if err := p.cluster.api.Kubeconfig(file, p.cluster.api.Admin()); err != nil {
		p.t.Fatal(err)
	}
	command := exec.CommandContext(p.t.Context(), p.cluster.api.Program("kubectl"), append([]string{"--kubeconfig=" + file}, args...)...)
	command.Stdin = strings.NewReader(p.fill("SECRET:exec-stdin:"))
	out, err := command.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v", out, err)
	}
	return string(out)
}

// statuses are those of all pods and of the Node, and the mirror of nothing else.
func (p *planted) statuses() string {
	p.t.Helper()
	pods, err := p.operator.CoreV1().Pods("").List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	node, err := p.operator.CoreV1().Nodes().Get(p.t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	all, _ := json.Marshal(node)
	for i := range pods.Items {
		status, _ := json.Marshal(pods.Items[i].Status)
		all = append(all, status...)
	}
	return string(all)
}

// lacks fails the test for each canary that a text has, as it is or in base64.
func (p *planted) lacks(what, text string, sets ...map[string]string) {
	p.t.Helper()
	for _, set := range sets {
		for name, value := range set {
			if where := found(text, value); where >= 0 {
				p.t.Errorf("%s is in the %s: ...%s...", name, what, text[max(0, where-300):min(len(text), where+100)])
			}
		}
	}
}

func found(text, value string) int {
	for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
		if where := strings.Index(text, form); where >= 0 {
			return where
		}
	}
	return -1
}

// files looks for canaries in what the agent keeps. No other user may read a file with one, and
// what comes from a secret is in the volumes of pods alone: the offline cache is sealed.
func (p *planted) files() {
	p.t.Helper()
	if kept, err := filepath.Glob(filepath.Join(p.root, "offline", "*.kept")); err != nil || len(kept) < 10 {
		p.t.Errorf("%d files in the offline cache, %v", len(kept), err)
	}
	err := filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for name, value := range p.secret {
			if found(string(content), value) >= 0 && !strings.Contains(path, "/volumes/") && filepath.Base(path) != "config.json" {
				p.t.Errorf("%s is in %s", name, path)
			}
		}
		for name, value := range p.spec {
			info, err := d.Info()
			if err != nil {
				return err
			}
			if found(string(content), value) >= 0 && info.Mode().Perm()&0o077 != 0 && !strings.Contains(path, "/volumes/") {
				p.t.Errorf("%s is in %s, which has the mode %s", name, path, info.Mode())
			}
		}
		return nil
	})
	if err != nil {
		p.t.Error(err)
	}
	if info, err := os.Stat(p.root); err != nil || info.Mode().Perm() != 0o700 {
		p.t.Errorf("%s has the mode %v: %v", p.root, info.Mode(), err)
	}
}

// rights fails the test for each thing that the node asked for and may not do. The API server hears
// of a new pod's node a moment after the node does; what it allows later is not meant.
func (p *planted) rights() {
	p.t.Helper()
	calls, refused := audited(p.t, p.audit)
	p.t.Logf("as the node: %v", calls)
	if len(refused) > 0 {
		p.t.Errorf("forbidden: %v", refused)
	}
}

// admits asks the node's server as those that rbac.yaml gives rights to, and as one that has none.
func (p *planted) admits() {
	p.t.Helper()
	for _, c := range []struct {
		user, path string
		in         bool
	}{
		{"server", "/pods", true},
		{"server", "/containerLogs/default/well/app", true},
		{"server", "/metrics", true},
		{"scraper", "/metrics", true},
		{"scraper", "/stats/summary", true},
		{"scraper", "/pods", false},
		{"scraper", "/containerLogs/default/well/app", false},
		{"scraper", "/exec/default/well/app?command=id", false},
		{"passer", "/metrics", false},
		{"passer", "/pods", false},
	} {
		code, body := p.ask(c.path, p.secret[c.user+"-token"])
		if code == http.StatusUnauthorized || (code != http.StatusForbidden) != c.in {
			p.t.Errorf("%s at %s: %d %s, want to be let in: %v", c.user, c.path, code, body, c.in)
		}
	}
}
