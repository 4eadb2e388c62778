package pods_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 3.4, 6.3, 8: an ephemeral container sees its target's
// processes; a missing target is a configuration error.
func TestEphemeralContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ns *runtimeapi.NamespaceOption
		w := newWorld(t, func(l fake.Launch) fake.Script {
			if l.Container == "debug" {
				ns = l.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
			}
			return fake.Script{}
		})
		pod := newPod()
		w.syncAll(pod)
		debug := func(name, target string) v1.EphemeralContainer {
			return v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon(container(name)), TargetContainerName: target,
			}
		}
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{debug("debug", "app"), debug("lost", "nobody")}
		r := w.sync(pod)
		if len(starts(r)) != 2 || starts(r)[0].Err != nil || starts(r)[1].Reason != "CreateContainerConfigError" {
			t.Fatalf("starts %+v", starts(r))
		}
		if ns.GetPid() != runtimeapi.NamespaceMode_TARGET || ns.GetTargetId() != w.read(pod).Container("app").ID.ID {
			t.Errorf("3.4: %v", ns)
		}
		if !w.events.has("Normal Started spec.ephemeralContainers{debug}") {
			t.Errorf("22.3: %v", w.events.list())
		}
	})
}

// spec/runtime.md 7: SandboxReady is called before any pull.
func TestSandboxReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		var told []string
		w = newWorld(t, nil, func(o *pods.Options) {
			o.SandboxReady = func(_ context.Context, uid types.UID, ips []string) {
				if n := w.fake.CallCount(fake.PullImage); n != 0 && uid == "uid-1" {
					t.Errorf("told after %d pulls", n)
				}
				told = append(ips, string(uid))
			}
		})
		pod := newPod()
		w.syncAll(pod)
		if status := w.read(pod); len(told) != 2 || told[0] != status.IPs[0] || told[1] != "uid-1" {
			t.Errorf("told %v, status %v", told, status.IPs)
		}
		// spec/runtime.md 1.7: addresses that a runtime gives for a sandbox on the host network are the node's.
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PodSandboxStatus, Func: func(c fake.Call) bool {
			return w.fake.SetIPs(c.SandboxID, netip.MustParseAddr("192.0.2.1")) != nil
		}}})
		w.syncAll(newPod(func(p *v1.Pod) { p.UID, p.Name, p.Spec.HostNetwork = "uid-2", "host", true }))
		if !slices.Equal(told, []string{"uid-2"}) {
			t.Errorf("told %v of a pod on the host network", told)
		}
	})
}

// spec/runtime.md 4: without cluster DNS, only a pod that asks for it explicitly gets an event, once.
// For those with the policy that the API server gives to all, the log has one line.
func TestMissingClusterDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logSink{}
		w := newWorld(t, nil, func(o *pods.Options) { o.Logger = log.logger() })
		for uid, policy := range map[types.UID]v1.DNSPolicy{"uid-a": v1.DNSClusterFirst, "uid-b": v1.DNSClusterFirst, "uid-c": v1.DNSClusterFirstWithHostNet} {
			pod := newPod(func(p *v1.Pod) {
				p.UID, p.Name, p.Spec.DNSPolicy = uid, string(uid), policy
				p.Spec.Containers = append(p.Spec.Containers, container("b"))
			})
			w.syncAll(pod)
			pod.Spec.Containers[0].Image += "2"
			w.syncAll(pod)
		}
		told := slices.DeleteFunc(w.events.list(), func(e string) bool { return !strings.Contains(e, "MissingClusterDNS") })
		if want := []string{"Warning MissingClusterDNS  No cluster DNS is configured. Falling back to DNS policy Default."}; !slices.Equal(told, want) {
			t.Errorf("4: told %q", told)
		}
		if n := strings.Count(log.text(), "No cluster DNS is configured"); n != 1 {
			t.Errorf("4: logged %d times", n)
		}
	})
}

// Edge 10: what is in an unknown state is killed before the new one starts, and
// not replaced if it cannot be killed.
func TestUnknownState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		if err := w.fake.SetUnknown(w.read(pod).Container("app").ID.ID); err != nil {
			t.Fatal(err)
		}
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		if r := w.sync(pod); r.Err == nil || len(starts(r)) != 0 {
			t.Errorf("edge 10: the kill failed, and: %+v", r)
		}
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if err := w.fake.Doubled(); err != nil {
			t.Error(err)
		}
	})
}
