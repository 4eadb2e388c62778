package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// able adds what the runtime can do to a fake.
type able struct {
	cri.RuntimeService
	status *runtimeapi.StatusResponse
	err    error
}

func (a able) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return a.status, a.err
}

// withStatus gives the world's manager a runtime that answers Status so.
func (w *world) withStatus(status *runtimeapi.StatusResponse, err error) {
	w.t.Helper()
	m, newErr := pods.New(able{w.fake, status, err}, w.fake, w.opts)
	if newErr != nil {
		w.t.Fatal(newErr)
	}
	w.m = m
}

// userNamespaces is a runtime whose handlers of these names have them.
func userNamespaces(hostNetwork bool, handlers ...string) *runtimeapi.StatusResponse {
	out := &runtimeapi.StatusResponse{Features: &runtimeapi.RuntimeFeatures{UserNamespacesHostNetwork: hostNetwork}}
	for _, h := range handlers {
		out.RuntimeHandlers = append(out.RuntimeHandlers, &runtimeapi.RuntimeHandler{
			Name: h, Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true},
		})
	}
	return out
}

func ownUsers(p *v1.Pod) { p.Spec.HostUsers = ptr.To(false) }

// lastSandbox and lastContainer are the newest requests the fake has got.
func (w *world) lastSandbox() *runtimeapi.RunPodSandboxRequest {
	calls := w.fake.Calls(fake.Match{Method: fake.RunPodSandbox})
	if len(calls) == 0 {
		return nil
	}
	return calls[len(calls)-1].Request.(*runtimeapi.RunPodSandboxRequest)
}

func (w *world) lastContainer() *runtimeapi.CreateContainerRequest {
	calls := w.fake.Calls(fake.Match{Method: fake.CreateContainer})
	if len(calls) == 0 {
		return nil
	}
	return calls[len(calls)-1].Request.(*runtimeapi.CreateContainerRequest)
}

// spec/runtime.md 3.7: the range is in the sandbox, the containers and their
// mounts, survives a restart of the agent and is free when the pod is finished.
func TestUserNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.UserNamespaces.Pods = 2 })
		w.withStatus(userNamespaces(false, ""), nil)
		pod := newPod(ownUsers)
		w.syncAll(pod)
		check := func(when string, host uint32) {
			t.Helper()
			want := []*runtimeapi.IDMapping{{HostId: host, Length: 65536}}
			ns := w.lastSandbox().Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions
			if ns.Mode != runtimeapi.NamespaceMode_POD || fmt.Sprint(ns.Uids, ns.Gids) != fmt.Sprint(want, want) {
				t.Errorf("3.4, 3.7 %s: sandbox %v", when, ns)
			}
			c := w.lastContainer().Config
			if got := c.Linux.SecurityContext.NamespaceOptions.UsernsOptions; fmt.Sprint(got) != fmt.Sprint(ns) {
				t.Errorf("3.7 %s: container %v", when, got)
			}
			if len(c.Mounts) == 0 {
				t.Errorf("3.7 %s: no mounts to look at", when)
			}
			for _, m := range c.Mounts {
				if fmt.Sprint(m.UidMappings, m.GidMappings) != fmt.Sprint(want, want) {
					t.Errorf("3.7 %s: mount %v", when, m)
				}
			}
		}
		check("first", 65536)
		record := filepath.Join(w.opts.RootDir, "pods/uid-1/userns")
		if text, err := os.ReadFile(record); err != nil || !strings.Contains(string(text), `"hostId":65536`) {
			t.Errorf("3.7: record %q, err %v", text, err)
		}

		w.withStatus(userNamespaces(false, ""), nil) // the agent restarts
		w.fake.Reboot()
		w.syncAll(pod)
		check("after a reboot", 65536)
		other := newPod(ownUsers, func(p *v1.Pod) { p.UID, p.Name = "uid-2", "other" })
		w.syncAll(other)
		check("another pod", 131072)

		for _, p := range []*v1.Pod{pod, other} {
			if err := w.m.KillPod(t.Context(), p, w.read(p), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.m.Forget(pod.UID)
		if _, err := os.Stat(record); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("3.7: the record of a finished pod: %v", err)
		}
		if err := errors.Join(w.m.RemovePod(t.Context(), other.UID), w.m.RemovePodDir(t.Context(), other.UID)); err != nil {
			t.Fatal(err)
		}
		third := newPod(ownUsers, func(p *v1.Pod) { p.UID, p.Name = "uid-3", "third" })
		w.syncAll(third)
		check("third pod", 65536)
		fourth := newPod(ownUsers, func(p *v1.Pod) { p.UID, p.Name = "uid-4", "fourth" })
		w.syncAll(fourth)
		check("fourth pod", 131072)
		w.sync(newPod(ownUsers, func(p *v1.Pod) { p.UID, p.Name = "uid-5", "fifth" }))
		if !w.events.has("Warning FailedCreatePodSandBox  Failed to create pod sandbox: all 2 ranges") {
			t.Errorf("3.7: events %q", w.events.list())
		}
	})
}

// spec/runtime.md 3.7: pods get IDs that the node's files give to the kubelet, and no others.
func TestUserNamespaceOfTheNodesFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, delegate("root:65536:65536\nkubelet:655360:131072\n", ""))
		w.withStatus(userNamespaces(false, ""), nil)
		for i, want := range []uint32{655360, 720896} {
			pod := newPod(ownUsers)
			pod.Name, pod.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint("uid-", i))
			w.syncAll(pod)
			if ids := w.lastSandbox().Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions.Uids; len(ids) != 1 || ids[0].HostId != want {
				t.Errorf("pod %d: IDs %v, want %d and up", i, ids, want)
			}
		}
		pod := newPod(ownUsers)
		pod.Name, pod.UID = "web-2", "uid-2"
		if err := w.sync(pod).Err; err == nil || !strings.Contains(err.Error(), "all 2 ranges of user IDs are in use") {
			t.Errorf("a third pod: %v", err)
		}
	})
}

// spec/runtime.md 3.7: what the runtime cannot do is an error with words, and nothing is made.
func TestUserNamespaceUnsupported(t *testing.T) {
	class := func(p *v1.Pod) { p.Spec.RuntimeClassName = ptr.To("kata") }
	onHost := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	shared := func(p *v1.Pod) { p.Spec.HostPID = true }
	ipc := func(p *v1.Pod) { p.Spec.HostIPC = true }
	for _, tc := range []struct {
		name   string
		change func(*v1.Pod)
		status *runtimeapi.StatusResponse
		err    error
		want   string // a part of the event, empty: it starts
	}{
		{"an old runtime says nothing", nil, &runtimeapi.StatusResponse{}, nil, `handler "" does not support user namespaces`},
		{"another handler has them", nil, userNamespaces(false, "kata"), nil, `handler "" does not support`},
		{"the class's handler has them", class, userNamespaces(false, "vm"), nil, ""},
		{"the class's handler does not", class, userNamespaces(false, ""), nil, `handler "vm" does not support`},
		{"host network", onHost, userNamespaces(false, ""), nil, "on the host network"},
		{"host network that can", onHost, userNamespaces(true, ""), nil, ""},
		{"node's processes", shared, userNamespaces(false, ""), nil, "hostPID"},
		{"node's IPC", ipc, userNamespaces(false, ""), nil, "hostIPC"},
		{"runtime is down", nil, nil, errors.New("connection refused"), "connection refused"},
	} {
		t.Run("3.7 "+tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, func(o *pods.Options) { o.RuntimeClasses = classes{"kata": {Handler: "vm"}} })
				w.withStatus(tc.status, tc.err)
				pod := newPod(ownUsers)
				if tc.change != nil {
					tc.change(pod)
				}
				r := w.sync(pod)
				if tc.want == "" {
					if r.Err != nil || w.lastContainer() == nil {
						t.Errorf("not started: %v", r.Err)
					}
					return
				}
				if r.Err == nil || w.lastSandbox() != nil || !strings.Contains(strings.Join(w.events.list(), "\n"), tc.want) {
					t.Errorf("err %v, events %q", r.Err, w.events.list())
				}
			})
		})
	}
}

// A record that was lost or damaged while the pod runs harms that pod only.
func TestUserNamespaceRecordBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: second}} })
		w.withStatus(userNamespaces(false, ""), nil)
		lost := newPod(ownUsers)
		bad := newPod(ownUsers, func(p *v1.Pod) { p.UID, p.Name = "uid-2", "bad" })
		plain := newPod(func(p *v1.Pod) { p.UID, p.Name = "uid-3", "plain" })
		all := []*v1.Pod{lost, bad, plain}
		for _, p := range all {
			w.syncAll(p)
		}
		record := func(uid types.UID) string { return filepath.Join(w.opts.RootDir, "pods", string(uid), "userns") }
		if err := errors.Join(os.Remove(record(lost.UID)), os.WriteFile(record(bad.UID), []byte("{"), 0o600)); err != nil {
			t.Fatal(err)
		}
		pass(2 * second) // all have exited
		w.withStatus(userNamespaces(false, ""), nil)
		for _, p := range all {
			before := len(w.fake.Calls(fake.Match{Method: fake.CreateContainer}))
			r := w.sync(p)
			started := len(w.fake.Calls(fake.Match{Method: fake.CreateContainer})) > before
			if want := p == plain; started != want || (r.Err == nil) != want {
				t.Errorf("3.7: %s: started %v, err %v", p.Name, started, r.Err)
			}
		}
	})
}

// classes knows runtime classes by name.
type classes map[string]pods.RuntimeClass

func (c classes) RuntimeClass(name string) (pods.RuntimeClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return pods.RuntimeClass{}, errors.New("it does not exist")
}

// spec/runtime.md 3.8: the class's handler runs the sandbox, a missing class makes
// the sandbox wait; 3.10: its overhead applies to pods that name none.
func TestRuntimeClass(t *testing.T) {
	classed := func(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.RuntimeClassName = &name } }
	amount := func(memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	synctest.Test(t, func(t *testing.T) {
		known := classes{"vm": {Handler: "kata", Overhead: amount("100Mi")}}
		w := newWorld(t, nil, func(o *pods.Options) { o.RuntimeClasses = known })
		for i, tc := range []struct {
			name     string
			change   func(*v1.Pod)
			handler  string
			overhead int64
		}{
			{"unset", func(*v1.Pod) {}, "", 0},
			{"empty", classed(""), "", 0},
			{"its handler and overhead", classed("vm"), "kata", 100 << 20},
			{"the pod's overhead wins", func(p *v1.Pod) { classed("vm")(p); p.Spec.Overhead = amount("1Mi") }, "kata", 1 << 20},
		} {
			pod := newPod(func(p *v1.Pod) { p.UID = types.UID(fmt.Sprint(i)) }, tc.change)
			w.syncAll(pod)
			r := w.lastSandbox()
			if r.RuntimeHandler != tc.handler || r.Config.Linux.Overhead.MemoryLimitInBytes != tc.overhead || w.lastContainer() == nil {
				t.Errorf("3.8 %s: handler %q, overhead %v", tc.name, r.RuntimeHandler, r.Config.Linux.Overhead)
			}
		}

		late := newPod(classed("late"))
		if r := w.sync(late); r.Err == nil || !strings.Contains(r.Err.Error(), `"late"`) || !w.events.has("Warning FailedCreatePodSandBox") {
			t.Errorf("3.8: a missing class: %v, events %q", r.Err, w.events.list())
		}
		known["late"] = pods.RuntimeClass{Handler: "h"}
		if w.syncAll(late); w.lastSandbox().RuntimeHandler != "h" {
			t.Errorf("3.8: not retried: %v", w.lastSandbox())
		}
		// A sandbox that exists has its handler: its containers need no class.
		delete(known, "late")
		before := w.read(late).Container("app").ID
		if err := w.fake.RemoveContainer(t.Context(), before.ID); err != nil {
			t.Fatal(err)
		}
		w.syncAll(late)
		if now := w.read(late).Container("app"); now == nil || now.ID == before {
			t.Errorf("3.8: not restarted without its class: %v", now)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		if r := w.sync(newPod(classed("vm"))); r.Err == nil || w.lastSandbox() != nil {
			t.Errorf("3.8: without classes: %v", r.Err)
		}
	})
}
