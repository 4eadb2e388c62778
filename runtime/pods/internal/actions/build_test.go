package actions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pod makes a pod: init containers (a name with a star is a sidecar) and apps.
func pod(policy v1.RestartPolicy, inits, apps string) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}
	for name := range strings.FieldsSeq(inits) {
		c := v1.Container{Name: strings.TrimSuffix(name, "*"), Image: "i"}
		if strings.HasSuffix(name, "*") {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for name := range strings.FieldsSeq(apps) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: "i"})
	}
	return p
}

// status makes what the runtime shows, in words: "s1:ready app=running
// init=exited:1 side=exited:0:OOMKilled". Later words are newer; sandboxes are
// s<attempt>, and containers are in the newest one before them.
func status(words string) *runtime.PodStatus {
	s := &runtime.PodStatus{}
	at := time.Unix(1000, 0)
	for i, word := range strings.Fields(words) {
		created := at.Add(time.Duration(i) * time.Second)
		if name, state, ok := strings.Cut(word, "="); ok {
			c := record(name, state, created)
			if len(s.Sandboxes) > 0 {
				c.SandboxID = s.Sandboxes[0].ID
			}
			s.Containers = append([]*runtime.ContainerStatus{c}, s.Containers...)
			continue
		}
		name, state, _ := strings.Cut(word, ":")
		sb := &runtime.SandboxStatus{ID: name, State: runtime.Exited, HasNetwork: true, IP: "10.0.0.1", CreatedAt: created}
		fmt.Sscanf(name, "s%d", &sb.Attempt)
		switch state {
		case "ready":
			sb.State = runtime.Running
		case "noip":
			sb.State, sb.IP = runtime.Running, ""
		case "host":
			sb.State, sb.IP, sb.HasNetwork, sb.HostNetwork = runtime.Running, "", false, true
		}
		s.Sandboxes = append([]*runtime.SandboxStatus{sb}, s.Sandboxes...)
	}
	return s
}

func record(name, state string, created time.Time) *runtime.ContainerStatus {
	fields := strings.Split(state, ":")
	c := &runtime.ContainerStatus{
		ID:   runtime.ContainerID{Runtime: "t", ID: fmt.Sprint(name, created.Unix())},
		Name: name, CreatedAt: created, Hash: meta.Hash(&v1.Container{Name: name, Image: "i"}),
	}
	switch fields[0] {
	case "created":
		c.State = runtime.Created
	case "unknown":
		c.State = runtime.Unknown
	case "running":
		c.State = runtime.Running
	case "changed":
		c.State, c.Hash = runtime.Running, 1
	case "exited":
		c.State = runtime.Exited
		fmt.Sscan(fields[1], &c.ExitCode)
		if len(fields) > 2 {
			c.Reason = fields[2]
		}
	}
	return c
}

// say puts a plan into words, so that tables read like the rules.
func say(p actions.Plan, of *v1.Pod) string {
	var out []string
	if len(p.Reset) > 0 {
		for _, r := range p.Reset {
			out = append(out, "reset "+r.Record.Name)
		}
		return strings.Join(out, ", ")
	}
	if p.KillPod {
		out = append(out, "kill pod")
	}
	if p.CreateSandbox {
		word := fmt.Sprint("sandbox ", p.Attempt)
		if p.Replaced != "" {
			word += " for " + p.Replaced
		}
		out = append(out, word)
	}
	for _, k := range p.Kill {
		word := "kill " + k.Record.Name + " " + string(k.Reason)
		if k.Restart {
			word += "+"
		}
		out = append(out, word)
	}
	for _, i := range p.StartEphemeral {
		out = append(out, "ephemeral "+of.Spec.EphemeralContainers[i].Name)
	}
	for _, i := range p.StartInit {
		out = append(out, "start "+of.Spec.InitContainers[i].Name)
	}
	for _, i := range p.StartApp {
		out = append(out, "start "+of.Spec.Containers[i].Name)
	}
	for _, i := range p.ResizeInit {
		out = append(out, "resize "+of.Spec.InitContainers[i].Name)
	}
	for _, i := range p.ResizeApp {
		out = append(out, "resize "+of.Spec.Containers[i].Name)
	}
	if p.ResizePod {
		out = append(out, "resize pod")
	}
	return strings.Join(out, ", ")
}

func deleted(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
