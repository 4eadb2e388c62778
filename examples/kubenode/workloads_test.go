//go:build apiserver && containerd

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 20
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 5, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: app
        image: IMAGE
        command: [sh, -c, "trap 'exit 0' TERM; touch /tmp/ready; sleep 100000 & wait"]
`

// probed are the probes of deployment: a command a second in each of 20 pods would be a load of its
// own.
const probed = `
        startupProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 100}
        readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, timeoutSeconds: 30}
`

const batch = `
apiVersion: batch/v1
kind: Job
metadata: {name: ten}
spec:
  completions: 10
  parallelism: 5
  template:
    metadata: {labels: {app: ten}}
    spec:
      restartPolicy: Never
      containers: [{name: work, image: IMAGE, command: [sh, -c, "exit 0"]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: failing}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {app: failing}}
    spec:
      restartPolicy: Never
      containers: [{name: work, image: IMAGE, command: [sh, -c, "exit 7"]}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        metadata: {labels: {app: cron}}
        spec:
          restartPolicy: Never
          containers: [{name: work, image: IMAGE, command: [sh, -c, "exit 0"]}]
`

const sets = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: IMAGE, command: [sh, -c, "hostname; trap 'exit 0' TERM; sleep 100000 & wait"]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: every}
spec:
  selector: {matchLabels: {app: every}}
  template:
    metadata: {labels: {app: every}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: IMAGE, command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]}]
`

// referred is what pods refer to.
const referred = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: first}
---
apiVersion: v1
kind: Service
metadata: {name: backend}
spec: {selector: {app: none}, ports: [{port: 8080}]}
---
`

const objects = referred + `
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {app: reader}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: prepare, image: IMAGE, command: [sh, -c, "echo prepared >/prepared/done"], volumeMounts: [{name: work, mountPath: /prepared}]}
  - {name: sidecar, image: IMAGE, restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]}
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    volumeMounts: [{name: work, mountPath: /prepared}, {name: settings, mountPath: /settings}, {name: password, mountPath: /password}]
  volumes:
  - {name: work, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
`

const hard = `
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: IMAGE, command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"], volumeMounts: [{name: big, mountPath: /big}]}
  volumes: [{name: big, configMap: {name: big}}]
---
apiVersion: v1
kind: Pod
metadata: {name: orphan}
spec:
  schedulingGates: [{name: wait}]
  serviceAccountName: leaver
  containers: [{name: app, image: IMAGE, command: [sleep, "1000"]}]
`

// TestContainerdAPIServerWorkloads: what people run on a cluster, on a real API server with
// its controllers, and a real runtime.
func TestContainerdAPIServerWorkloads(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start("--container-log-max-size=100Ki")
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	c.apply(batch)
	c.apply(sets)
	c.apply(objects)
	t.Run("Deployment", func(t *testing.T) {
		c.apply(deployment + probed)
		c.until("20 replicas Ready", 2*time.Minute, c.ready("app=web", 20))
		c.kubectl("scale", "deployment", "web", "--replicas=0")
		c.until("scaled to 0", time.Minute, c.ready("app=web", 0))
		c.kubectl("scale", "deployment", "web", "--replicas=5")
		c.until("scaled to 5", time.Minute, c.ready("app=web", 5))
		c.kubectl("rollout", "restart", "deployment", "web")
		c.kubectl("rollout", "status", "deployment", "web", "--timeout=120s")
		c.until("rolled out", time.Minute, c.ready("app=web", 5))
	})
	t.Run("Job", func(t *testing.T) {
		c.kubectl("wait", "job/ten", "--for=condition=Complete", "--timeout=120s")
		c.kubectl("wait", "job/failing", "--for=condition=Failed", "--timeout=120s")
		if code := c.kubectl("get", "pods", "-l", "app=failing", "-o", "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}"); code != "7" {
			t.Errorf("exit code %q", code)
		}
	})
	t.Run("StatefulSet and DaemonSet", func(t *testing.T) {
		c.until("3 replicas Ready", time.Minute, c.ready("app=db", 3))
		c.until("one on each node", time.Minute, c.ready("app=every", 1))
		before := c.pods("app=db")
		c.kubectl("delete", "pod", "db-1", "--grace-period=1", "--wait=true")
		c.until("db-1 came back", time.Minute, c.ready("app=db", 3))
		for i, pod := range c.pods("app=db") {
			if (pod.UID == before[i].UID) == (pod.Name == "db-1") {
				t.Errorf("%s had UID %s, has %s", pod.Name, before[i].UID, pod.UID)
			}
		}
	})
	t.Run("objects", func(t *testing.T) {
		c.until("the pod is Ready", time.Minute, c.ready("app=reader", 1))
		c.inContainer("reader", "app", "cat /prepared/done", "prepared")
		c.inContainer("reader", "app", "cat /settings/colour; cat /password/word", "bluefirst")
		c.inContainer("reader", "app", "env", "BACKEND_SERVICE_PORT=8080")
		c.inContainer("reader", "app", "ls /var/run/secrets/kubernetes.io/serviceaccount", "ca.crt\nnamespace\ntoken")
		c.kubectl("patch", "configmap", "settings", "-p", `{"data":{"colour":"green"}}`)
		c.kubectl("patch", "secret", "password", "-p", `{"stringData":{"word":"second"}}`)
		c.until("new content in the volumes (KO4)", 10*time.Second, func() error {
			return c.prints("reader", "app", "cat /settings/colour; cat /password/word", "greensecond")
		})
	})
	t.Run("logs, exec and cp", func(t *testing.T) {
		c.kubectl("run", "talker", "--image="+c.runtime.Image, "--labels=app=talker", "--restart=Never", "--", "sh", "-c",
			"for i in $(seq 1 200); do echo line $i; done; echo broken >&2; until [ -e /tmp/copied ]; do sleep 0.1; done; sleep 3; echo last; exit 3")
		c.until("it talks", time.Minute, c.ready("app=talker", 1))
		if out := c.kubectl("exec", "talker", "--", "echo", "out"); !strings.Contains(out, "out") {
			t.Errorf("exec prints %q", out)
		}
		if out, err := c.api.Kubectl(t.Context(), "exec", "talker", "--", "sh", "-c", "exit 9"); err == nil || !strings.Contains(err.Error(), "exit code 9") {
			t.Errorf("exec with an exit code: %q, %v", out, err)
		}
		file := t.TempDir() + "/copied"
		c.kubectl("cp", "default/talker:/etc/hostname", file)
		if content, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(content)) != "talker" {
			t.Errorf("cp: %q, %v", content, err)
		}
		c.kubectl("exec", "talker", "--", "touch", "/tmp/copied")
		followed := c.kubectl("logs", "-f", "talker")
		// The runtime reads the two outputs side by side, so their order is not fixed.
		lines := strings.Split(strings.TrimSpace(strings.Replace(followed, "broken\n", "", 1)), "\n")
		if len(lines) != 201 || lines[199] != "line 200" || lines[200] != "last" || !strings.Contains(followed, "broken\n") {
			t.Errorf("logs -f: %d lines: %.200s", len(lines), followed)
		}
		if tail := c.kubectl("logs", "talker", "--tail=1"); tail != "last\n" {
			t.Errorf("logs --tail=1: %q", tail)
		}
		if _, err := c.api.Kubectl(t.Context(), "logs", "talker", "-c", "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("logs of a container that there is not: %v", err)
		}
		if _, err := c.api.KubectlAs(t.Context(), c.api.User("stranger"), "logs", "talker"); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("logs as somebody without rights: %v", err)
		}
		c.kubectl("delete", "pod", "talker", "--grace-period=1")
	})
	t.Run("the token inside", func(t *testing.T) {
		token := c.kubectl("exec", "reader", "-c", "app", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
		config := c.api.User("") // the container's image has no client: the test calls in its place
		config.BearerToken, config.CertData, config.KeyData = strings.TrimSpace(token), nil, nil
		client := kubernetes.NewForConfigOrDie(config)
		defer client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		user := review.Status.UserInfo
		if user.Username != "system:serviceaccount:default:default" || fmt.Sprint(user.Extra["authentication.kubernetes.io/pod-name"]) != "[reader]" {
			t.Errorf("the API server takes its owner for %+v", user)
		}
	})
	t.Run("objects that are hard", func(t *testing.T) {
		big := t.TempDir() + "/big"
		if err := os.WriteFile(big, []byte(strings.Repeat("x", 1_000_000)), 0o600); err != nil {
			t.Fatal(err)
		}
		c.kubectl("create", "configmap", "big", "--from-file="+big)
		c.kubectl("create", "serviceaccount", "leaver")
		c.apply(hard)
		c.kubectl("delete", "serviceaccount", "leaver")
		c.kubectl("patch", "pod", "orphan", "--type=json", "-p", `[{"op":"remove","path":"/spec/schedulingGates"}]`)
		c.until("a config map of 1 MB is in a volume", time.Minute, func() error { return c.prints("large", "app", "wc -c </big/big", "1000000") })
		c.until("a pod whose service account is gone says so", time.Minute, func() error {
			out := c.kubectl("get", "events", "--field-selector=involvedObject.name=orphan", "-o", "jsonpath={.items[*].message}")
			if !strings.Contains(out, `serviceaccounts "leaver" not found`) {
				return errors.New(out)
			}
			return nil
		})
		c.kubectl("delete", "pod", "orphan", "large", "--grace-period=1")
	})
	t.Run("delete --force", func(t *testing.T) {
		victim := c.pods("app=every")[0]
		c.kubectl("delete", "pod", victim.Name, "--force", "--grace-period=0")
		c.until("its successor is Ready", time.Minute, c.ready("app=every", 1))
		c.until("its containers are gone", time.Minute, func() error {
			if out := c.runtime.Ctr("containers", "list"); strings.Contains(out, string(victim.UID)) {
				return errors.New(out)
			}
			return nil
		})
	})
	t.Run("eviction with a budget", func(t *testing.T) {
		c.kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=5")
		if out, err := c.api.Kubectl(t.Context(), "drain", nodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--pod-selector=app=web", "--timeout=3s"); err == nil {
			t.Errorf("drained against the budget: %s", out)
		}
		c.kubectl("delete", "poddisruptionbudget", "web")
		c.kubectl("uncordon", nodeName)
	})
	t.Run("CronJob", func(t *testing.T) {
		c.until("a job of the schedule has succeeded", 90*time.Second, func() error {
			for _, pod := range c.pods("app=cron") {
				if pod.Status.Phase == v1.PodSucceeded {
					return nil
				}
			}
			return errors.New("none")
		})
		c.kubectl("delete", "cronjob", "cron")
	})
	t.Run("streams", c.streams)
	t.Run("drain", func(t *testing.T) {
		c.kubectl("drain", nodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")
		c.until("the web pods wait for a node", 30*time.Second, func() error {
			for _, pod := range c.pods("app=web") {
				if pod.Spec.NodeName != "" {
					return fmt.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
				}
			}
			return nil
		})
		c.kubectl("uncordon", nodeName)
		c.until("and come back", time.Minute, c.ready("app=web", 5))
	})
}

// prints compares what a command prints in a container, past kubectl.
func (c *cluster) prints(pod, container, command, want string) error {
	found, err := c.operator.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, s := range found.Status.ContainerStatuses {
		if s.Name != container || s.State.Running == nil {
			continue
		}
		_, id, _ := strings.Cut(s.ContainerID, "://")
		var out string
		for range 3 { // on a full machine ctr may end before the output has come
			if out = c.runtime.Ctr("task", "exec", "--exec-id", fmt.Sprintf("e%d", time.Now().UnixNano()), id, "sh", "-c", command); out != "" {
				break
			}
		}
		if strings.Contains(strings.TrimSpace(out), want) {
			return nil
		}
		return fmt.Errorf("%s prints %q, want %q", command, out, want)
	}
	return fmt.Errorf("container %s does not run", container)
}

func (c *cluster) inContainer(pod, container, command, want string) {
	c.t.Helper()
	if err := c.prints(pod, container, command, want); err != nil {
		c.t.Error(err)
	}
}

// outage is how long the API server is away in TestContainerdAPIServerOutage.
var outage = flag.Duration("outage", 20*time.Second, "how long the API server is away")

const job = `
apiVersion: v1
kind: Pod
metadata: {name: once, labels: {app: once}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: work, image: IMAGE, command: [sh, -c, "while ! test -e /host/end; do sleep 0.1; done; exit 42"], volumeMounts: [{name: host, mountPath: /host}]}]
  volumes: [{name: host, hostPath: {path: HOST, type: Directory}}]
`

// TestContainerdAPIServerOutage (KT6, KS10, KW3): the API server stops, a job ends, the
// agent is killed with kill -9 twice and started again, and the API server comes back: the
// exit code arrives, and nothing ran twice.
func TestContainerdAPIServerOutage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	host := t.TempDir()
	c.apply(strings.ReplaceAll(job, "HOST", host))
	c.apply(strings.ReplaceAll(deployment, "replicas: 20", "replicas: 3"))
	c.until("web is Ready", time.Minute, c.ready("app=web", 3))
	c.until("the job runs", time.Minute, c.ready("app=once", 1))
	before := c.ids("app=web")
	if err := c.api.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	c.kill(syscall.SIGKILL)
	if err := writeEmpty(host + "/end"); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.sleep(*outage / 2)
	c.kill(syscall.SIGKILL)
	c.start()
	c.sleep(*outage / 2)
	if err := c.api.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.api.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.until("the exit code is told", 90*time.Second, func() error {
		pods := c.pods("app=once")
		if len(pods) != 1 || pods[0].Status.Phase != v1.PodFailed {
			return fmt.Errorf("%d pods", len(pods))
		}
		if code := pods[0].Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 42 {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	})
	c.until("web is Ready", time.Minute, c.ready("app=web", 3))
	if after := c.ids("app=web"); after != before {
		t.Errorf("containers were started again:\n%s\n%s", before, after)
	}
}

// ids are the containers of pods, with their restarts.
func (c *cluster) ids(selector string) string {
	var ids []string
	for _, pod := range c.pods(selector) {
		for _, s := range pod.Status.ContainerStatuses {
			ids = append(ids, fmt.Sprint(pod.Name, s.ContainerID, s.RestartCount))
		}
	}
	return strings.Join(ids, " ")
}
