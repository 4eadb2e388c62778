package pods_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// warehouse grants to containers by name.
type warehouse struct {
	grants          map[string]pods.Grant
	err, releaseErr error
	asked           []string
	released        []types.UID
}

func (w *warehouse) Grant(_ context.Context, pod *v1.Pod, c *v1.Container) (pods.Grant, error) {
	w.asked = append(w.asked, string(pod.UID)+"/"+c.Name)
	return w.grants[c.Name], w.err
}

func (w *warehouse) Release(_ context.Context, uid types.UID) error {
	w.released = append(w.released, uid)
	return w.releaseErr
}

// config is the configuration the newest container of a name was created with.
func (w *world) config(name string) *runtimeapi.ContainerConfig {
	w.t.Helper()
	calls := w.fake.Calls(fake.Match{Method: fake.CreateContainer, Container: name})
	if len(calls) == 0 {
		w.t.Fatalf("container %s was not created", name)
	}
	return calls[len(calls)-1].Request.(*runtimeapi.CreateContainerRequest).GetConfig()
}

// spec/runtime.md 26.1: a container is created with what it was granted; without, or with a grant
// that no runtime could take, it waits.
func TestContainersGetTheirGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := pods.Grant{
			CPUs: "2-3", MemoryNodes: "1", ExclusiveCPUs: true,
			Devices: []pods.GrantedDevice{{HostPath: "/dev/gpu0", ContainerPath: "/dev/gpu0"}, {HostPath: "/dev/a", ContainerPath: "/dev/b", Permissions: "r"}},
			CDI:     []string{"example.com/gpu=0"}, Env: []v1.EnvVar{{Name: "GPU", Value: "0"}, {Name: "MINE", Value: "grant's"}},
			Mounts:      []pods.GrantedMount{{HostPath: "/usr/lib/gpu", ContainerPath: "/gpu", ReadOnly: true}},
			Annotations: map[string]string{"example.com/gpu": "0", "io.kubernetes.container.hash": "forged"},
		}
		stock := &warehouse{err: errors.New("no GPU is free"), grants: map[string]pods.Grant{"app": gpu}}
		w := newWorld(t, nil, func(o *pods.Options) { o.Grants = stock })
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "MINE", Value: "manifest's"}}
			p.Spec.Containers = append(p.Spec.Containers, container("plain"))
		})
		waits := func(want string) {
			t.Helper()
			w.sync(pod)
			if reason := w.m.WaitingReasons(pod.UID)["app"]; reason.Reason != "CreateContainerConfigError" || !strings.Contains(reason.Message, want) {
				t.Errorf("26.1: waits for %+v, want %s", reason, want)
			}
			pass(600 * second)
		}
		waits("resources of the node: no GPU is free")
		stock.err, stock.grants = nil, map[string]pods.Grant{"app": {
			Mounts: []pods.GrantedMount{{HostPath: "lib", ContainerPath: "/gpu"}}, CDI: []string{""},
			Env: []v1.EnvVar{{}}, Devices: []pods.GrantedDevice{{HostPath: "/dev/x"}},
		}}
		waits(`mount "lib" at "/gpu": both paths must be absolute`)
		stock.grants["app"] = gpu
		w.syncAll(pod)
		w.wantState(pod, "app:running plain:running")
		c := w.config("app")
		resources := c.GetLinux().GetResources()
		if resources.GetCpusetCpus() != "2-3" || resources.GetCpusetMems() != "1" || resources.GetCpuQuota() != -1 {
			t.Errorf("26.1: resources %v", resources)
		}
		var devices, cdi, envs []string
		for _, d := range c.GetDevices() {
			devices = append(devices, d.GetHostPath()+":"+d.GetContainerPath()+":"+d.GetPermissions())
		}
		for _, d := range c.GetCDIDevices() {
			cdi = append(cdi, d.GetName())
		}
		for _, e := range c.GetEnvs() {
			envs = append(envs, e.GetKey()+"="+string(e.GetValue()))
		}
		if want := []string{"/dev/gpu0:/dev/gpu0:rwm", "/dev/a:/dev/b:r"}; !slices.Equal(devices, want) {
			t.Errorf("26.1: devices %v", devices)
		}
		if !slices.Equal(cdi, gpu.CDI) || !slices.Equal(envs, []string{"MINE=manifest's", "GPU=0"}) {
			t.Errorf("26.1: CDI %v, environment %v", cdi, envs)
		}
		if !slices.ContainsFunc(c.GetMounts(), func(m *runtimeapi.Mount) bool {
			return m.GetContainerPath() == "/gpu" && m.GetHostPath() == "/usr/lib/gpu" && m.GetReadonly()
		}) {
			t.Errorf("26.1: mounts %v", c.GetMounts())
		}
		if a := c.GetAnnotations(); a["example.com/gpu"] != "0" || a["io.kubernetes.container.hash"] == "forged" {
			t.Errorf("26.1: annotations %v", a)
		}
		if plain := w.config("plain"); plain.GetLinux().GetResources().GetCpusetCpus() != "" || len(plain.GetDevices()) != 0 {
			t.Errorf("26.1: container without grant has %v", plain)
		}
	})
}

// spec/runtime.md 26.2: what a pod has is released when its volumes are torn down, and the pod is
// not gone before.
func TestGrantsAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stock := &warehouse{releaseErr: errors.New("the driver hangs")}
		w := newWorld(t, nil, func(o *pods.Options) { o.Grants = stock })
		pod := newPod()
		w.syncAll(pod)
		if len(stock.released) != 0 {
			t.Errorf("26.2: released while it runs: %v", stock.released)
		}
		if err := w.m.TearDownVolumes(t.Context(), pod.UID); err == nil || !strings.Contains(err.Error(), "the driver hangs") {
			t.Errorf("26.2: err %v", err)
		}
		stock.releaseErr = nil
		if err := w.m.TearDownVolumes(t.Context(), pod.UID); err != nil || !slices.Equal(stock.released, []types.UID{pod.UID, pod.UID}) {
			t.Errorf("26.2: err %v, released %v", err, stock.released)
		}
	})
}

// spec/runtime.md 26.1: a container with CPUs of its own is not held back by the quota of its pod either, also after a resize and
// after a restart of the agent; a pod without such a container has its quota.
func TestExclusiveCPUsLiftThePodsQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		stock := &warehouse{grants: map[string]pods.Grant{"a": {CPUs: "2-3", ExclusiveCPUs: true}, "b": {CPUs: "0-1"}}}
		w.opts.Grants = stock
		w.reload()
		quota := func(when string, want int64) {
			t.Helper()
			if got := w.cgroups.set["uid-1"].CPUQuota; got != want {
				t.Errorf("26.1: %s: the pod's quota is %d, want %d", when, got, want)
			}
		}
		w.to(apps("2 1000", "1 1000"))
		quota("at the start", -1)
		w.to(apps("2 2000", "1 1000"))
		quota("after a resize of the memory", -1)
		w.reload()
		w.to(apps("2 2000", "2 1000"))
		quota("after a resize of the other's CPU", -1)
		w.cgroups.set["uid-1"] = pods.CgroupResources{CPUQuota: 400000, CPUPeriod: 100000, MemoryLimit: 3000} // as an earlier agent left it
		w.to(apps("2 3000", "2 1000"))
		quota("after a resize under an earlier agent's quota", -1)
		stock.grants["a"] = pods.Grant{}
		w.to(apps("1500m 3000", "2 1000"))
		quota("without CPUs of its own", 350000)
		stock.grants["a"] = pods.Grant{CPUs: "2-3", ExclusiveCPUs: true}
		w.to(apps("2 3000", "2 1000"))
		quota("with them again", -1)
		for _, call := range w.fake.Calls(fake.Match{Method: fake.UpdatePodSandboxResources}) {
			if r := call.Request.(*runtimeapi.UpdatePodSandboxResourcesRequest).GetResources(); r.GetCpuQuota() != -1 && r.GetCpuQuota() != 350000 {
				t.Errorf("26.1: the sandbox is told the quota %d", r.GetCpuQuota())
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		w.opts.Grants = &warehouse{grants: map[string]pods.Grant{"a": {CPUs: "2-3"}}}
		w.reload()
		w.to(apps("2 1000"))
		if got := w.cgroups.set["uid-1"].CPUQuota; got != 200000 {
			t.Errorf("13.4: CPUs that others use too: the pod's quota is %d", got)
		}
	})
}

// spec/runtime.md 26.1: while the pod's quota cannot be lifted, the container waits and says why.
func TestQuotaThatCannotBeLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		w.opts.Grants = &warehouse{grants: map[string]pods.Grant{"a": {CPUs: "2-3", ExclusiveCPUs: true}}}
		w.reload()
		w.fail = "set pod quota -1"
		w.to(apps("2 1000", "1 1000"))
		if reason := w.m.WaitingReasons("uid-1")["a"]; reason.Reason != "CreateContainerConfigError" || !strings.Contains(reason.Message, "lift the CPU quota") {
			t.Errorf("26.1: waits for %+v", reason)
		}
		w.wantState(apps("2 1000", "1 1000"), "a:none b:running")
		w.fail = ""
		pass(600 * second)
		w.to(apps("2 1000", "1 1000"))
		w.wantState(apps("2 1000", "1 1000"), "a:running b:running")
		if got := w.cgroups.set["uid-1"].CPUQuota; got != -1 {
			t.Errorf("26.1: the pod's quota is %d", got)
		}
	})
}
