//go:build apiserver

package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/kube/apitest"
	runtimefake "github.com/podwright/podwright/runtime/fake"
)

// lives is how often one name is used in TestAPIServerOneNameManyLives.
var lives = flag.Int("lives", 100, "how many pods get one name, one after the other")

// fleet is an API server with nodes on fake runtimes, all in this process.
type fleet struct {
	t        *testing.T
	api      *apitest.Cluster
	operator *kubernetes.Clientset
}

// member is one of its nodes.
type member struct {
	runtime *runtimefake.Runtime
	engine  *podwright.Engine
	// done is closed when Run has ended; stop ends it, and returns its error.
	done chan struct{}
	stop func() error
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, api: apitest.Start(t, apitest.Options{})}
	f.operator = kubernetes.NewForConfigOrDie(f.api.Admin())
	t.Cleanup(f.operator.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	return f
}

func (f *fleet) start(name string, o Options) *member {
	f.t.Helper()
	m := &member{runtime: runtimefake.New(runtimefake.Options{MaxCalls: 1000})}
	config := podwright.Config{
		Runtime: m.runtime, Images: m.runtime, RootDir: filepath.Join(f.t.TempDir(), "root"), Node: podwright.Node{Name: name},
	}
	o.Config = f.api.Node(name)
	agent, err := New(o, &config)
	if err != nil {
		f.t.Fatal(err)
	}
	if m.engine, err = podwright.New(config); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	m.done = make(chan struct{})
	go func() { defer close(m.done); ended <- agent.Run(ctx, m.engine) }()
	m.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	f.t.Cleanup(func() { _ = m.stop() })
	return m
}

func (f *fleet) create(name, node string) *v1.Pod {
	f.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers: []v1.Container{{Name: "app", Image: "app:1"}},
		},
	}
	made, err := f.operator.CoreV1().Pods("default").Create(f.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return made
}

// until waits for a condition; the test fails after a minute.
func (f *fleet) until(what string, holds func() error) {
	f.t.Helper()
	patience.Within(f.t, time.Minute, what, holds)
}

func (f *fleet) running(pod *v1.Pod) func() error {
	return func() error {
		now, err := f.operator.CoreV1().Pods(pod.Namespace).Get(f.t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && (now.UID != pod.UID || now.Status.Phase != v1.PodRunning) {
			err = fmt.Errorf("pod %s is %s", now.UID, now.Status.Phase)
		}
		return err
	}
}

// TestAPIServerTwoNodes (KN2, KW2, KW4): two nodes in one process run their own pods alone,
// and Run leaves nothing of them, while the pods stay.
func TestAPIServerTwoNodes(t *testing.T) {
	f := newFleet(t)
	began := time.Now()
	nodes := map[string]*member{"edge-1": f.start("edge-1", Options{}), "edge-2": f.start("edge-2", Options{})}
	for name := range nodes {
		f.until(name+" is Ready", func() error {
			node, err := f.operator.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
					return nil
				}
			}
			return errors.New("not Ready")
		})
	}
	t.Logf("both are Ready after %s", time.Since(began).Round(time.Millisecond))
	var pods []*v1.Pod
	for i := range 20 {
		pods = append(pods, f.create(fmt.Sprintf("pod-%d", i), fmt.Sprintf("edge-%d", i%2+1)))
	}
	for _, pod := range pods {
		f.until(pod.Name+" runs", f.running(pod))
	}
	for name, m := range nodes {
		own := m.engine.Pods()
		if len(own) != 10 {
			t.Errorf("%s has %d pods, want 10", name, len(own))
		}
		for i := range own {
			if own[i].Spec.NodeName != name {
				t.Errorf("%s has %s of %s", name, own[i].Name, own[i].Spec.NodeName)
			}
		}
		if err := m.stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, pod := range pods {
		if err := f.running(pod)(); err != nil {
			t.Error(err)
		}
	}
}

// TestAPIServerOneNameManyLives (KS6, KT8): one name is used again and again, at once and
// force-deleted each time. Each life runs, and nothing of the former ones stays.
//
// Now and then the API server itself takes a life away: a forced deletion is two writes, and
// a patch of the status that comes between them deletes the pod's name when it ends, which may be
// its successor's by then (docs/spec/kube.md, KT8). That life begins again.
func TestAPIServerOneNameManyLives(t *testing.T) {
	f := newFleet(t)
	m := f.start("edge-1", Options{})
	f.until("registered", func() error {
		_, err := f.operator.CoreV1().Nodes().Get(t.Context(), "edge-1", metav1.GetOptions{})
		return err
	})
	began, taken := time.Now(), 0
	for i := range *lives {
		pod := f.create("same", "edge-1")
		if i%2 == 0 || i == *lives-1 { // every other life ends before it runs
			f.until(fmt.Sprintf("life %d runs", i), func() error {
				err := f.running(pod)()
				if apierrors.IsNotFound(err) {
					taken++
					pod = f.create("same", "edge-1")
				}
				return err
			})
		}
		if i == *lives-1 {
			break
		}
		err := f.operator.CoreV1().Pods("default").Delete(t.Context(), "same", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
		if apierrors.IsNotFound(err) {
			taken++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d lives in %s, %d taken away by the API server", *lives, time.Since(began).Round(time.Millisecond), taken)
	if taken > *lives/5 {
		t.Errorf("%d of %d lives were taken away", taken, *lives)
	}
	f.until("only the last life is left", func() error {
		sandboxes, err := m.runtime.ListPodSandbox(t.Context(), nil)
		if err == nil && (len(sandboxes) != 1 || len(m.engine.Pods()) != 1) {
			err = fmt.Errorf("%d sandboxes, %d pods", len(sandboxes), len(m.engine.Pods()))
		}
		return err
	})
}

// TestAPIServerNodeIsDeleted (KN7): Drain stops all pods and ends Run, Exit ends Run and
// leaves them.
func TestAPIServerNodeIsDeleted(t *testing.T) {
	f := newFleet(t)
	for policy, left := range map[Policy]int{Drain: 0, Exit: 1} {
		name := "edge-" + strings.ToLower(string(policy))
		m := f.start(name, Options{WhenGone: policy})
		f.until("registered", func() error {
			_, err := f.operator.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			return err
		})
		pod := f.create("pod-of-"+name, name)
		f.until("it runs", f.running(pod))
		if err := f.operator.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.until(name+" has left", func() error {
			select {
			case <-m.done:
				return nil
			default:
				return errors.New("it runs")
			}
		})
		if err := m.stop(); !errors.Is(err, ErrNodeGone) {
			t.Errorf("%s: Run ended with %v", policy, err)
		}
		containers, err := m.runtime.ListContainers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		running := 0
		for _, c := range containers {
			if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				running++
			}
		}
		if running != left {
			t.Errorf("%s: %d containers run, want %d", policy, running, left)
		}
	}
}
